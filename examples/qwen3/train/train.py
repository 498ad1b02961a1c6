#!/usr/bin/env python3
"""Trains, evaluates and samples a byte-level language model of the Qwen3 architecture.

  train.py TEXT --output FILE.gguf      trains on the first nine tenths of TEXT
  train.py --evaluate FILE.gguf TEXT    nats per byte of the stored model on the last tenth
  train.py --generate FILE.gguf         prints text sampled from the stored model
  train.py --logits FILE.gguf           prints the logits after a prompt, as JSON

The weights are a dictionary keyed by GGUF tensor name, so training and the stored file, which is
dequantised to float32, share one `forward`. README.md lists the requirements.
"""

import argparse
import json
import math
import os
import time
from dataclasses import dataclass

# OpenBLAS gets one thread, and torch, in main, one, too. Two are an eighth faster on an idle machine
# and wait for each other on a busy one; with two in torch's own pool, Debian's build takes four
# times as long per step.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import gguf
import numpy as np
import torch
import torch.nn.functional as F

END_OF_TEXT = 256  # Ids 0 to 255 are the bytes themselves.
VOCAB_SIZE = 257
WINDOWS_PER_STEP = 8


@dataclass
class Config:
    """Shape of the model; the defaults are what training builds."""

    context_length: int = 256
    embedding_length: int = 128
    block_count: int = 4
    feed_forward_length: int = 384
    head_count: int = 4
    head_count_kv: int = 2
    head_length: int = 32
    rms_epsilon: float = 1e-6
    rope_freq_base: float = 10000.0


# The metadata key, after "qwen3.", of each Config field.
METADATA_KEYS = {field: field for field in Config.__dataclass_fields__} | {
    "head_count": "attention.head_count",
    "head_count_kv": "attention.head_count_kv",
    "head_length": "attention.key_length",
    "rms_epsilon": "attention.layer_norm_rms_epsilon",
    "rope_freq_base": "rope.freq_base",
}


def initial_weights(config, generator):
    """Random float32 weights, keyed by GGUF tensor name. The embedding is also the output."""
    width, hidden = config.embedding_length, config.feed_forward_length
    q_width = config.head_count * config.head_length
    kv_width = config.head_count_kv * config.head_length
    residual_scale = 1 / math.sqrt(2 * config.block_count)

    def matrix(rows, columns, scale=1.0):
        return torch.randn(rows, columns, generator=generator) * (scale / math.sqrt(columns))

    weights = {"token_embd.weight": torch.randn(VOCAB_SIZE, width, generator=generator) * 0.02}
    for block in range(config.block_count):
        tensors = {
            "attn_norm": torch.ones(width),
            "attn_q": matrix(q_width, width),
            "attn_k": matrix(kv_width, width),
            "attn_v": matrix(kv_width, width),
            "attn_q_norm": torch.ones(config.head_length),
            "attn_k_norm": torch.ones(config.head_length),
            "attn_output": matrix(width, q_width, residual_scale),
            "ffn_norm": torch.ones(width),
            "ffn_gate": matrix(hidden, width),
            "ffn_up": matrix(hidden, width),
            "ffn_down": matrix(width, hidden, residual_scale),
        }
        weights.update({f"blk.{block}.{name}.weight": t for name, t in tensors.items()})
    weights["output_norm.weight"] = torch.ones(width)
    return weights


def rms_norm(x, weight, epsilon):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + epsilon) * weight


def rotary(x, base):
    """Rotates element i of each head with element i + head_length / 2 (the NEOX layout)."""
    first, second = x.chunk(2, dim=-1)
    length, half = first.shape[-2:]
    frequencies = base ** (-torch.arange(half, dtype=torch.float32) / half)
    angles = torch.arange(length, dtype=torch.float32)[:, None] * frequencies
    cos, sin = angles.cos(), angles.sin()
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def forward(config, weights, tokens):
    """Logits, [batch, length, VOCAB_SIZE], of tokens, [batch, length]."""
    batch, length = tokens.shape
    heads, kv_heads = config.head_count, config.head_count_kv
    mask = torch.full((length, length), -math.inf).triu(1)
    x = F.embedding(tokens, weights["token_embd.weight"])

    def split(projected, count):
        return projected.view(batch, length, count, config.head_length).transpose(1, 2)

    for block in range(config.block_count):
        w = {n.split(".")[2]: t for n, t in weights.items() if n.startswith(f"blk.{block}.")}
        h = rms_norm(x, w["attn_norm"], config.rms_epsilon)
        q = split(F.linear(h, w["attn_q"]), heads)
        k = split(F.linear(h, w["attn_k"]), kv_heads)
        v = split(F.linear(h, w["attn_v"]), kv_heads)
        q = rotary(rms_norm(q, w["attn_q_norm"], config.rms_epsilon), config.rope_freq_base)
        k = rotary(rms_norm(k, w["attn_k_norm"], config.rms_epsilon), config.rope_freq_base)
        # Query heads 0..n-1 share key-value head 0, the next n share head 1, and so on: stacking
        # the n query heads of a group makes each group one matrix product.
        group = heads // kv_heads
        q = q.reshape(batch, kv_heads, group * length, config.head_length)
        scores = (q * config.head_length**-0.5) @ k.transpose(-1, -2)
        scores = scores.view(batch, kv_heads, group, length, length) + mask
        attended = scores.softmax(-1).view(batch, kv_heads, group * length, length) @ v
        attended = attended.view(batch, heads, length, config.head_length).transpose(1, 2)
        x = x + F.linear(attended.reshape(batch, length, -1), w["attn_output"])

        h = rms_norm(x, w["ffn_norm"], config.rms_epsilon)
        h = F.silu(F.linear(h, w["ffn_gate"])) * F.linear(h, w["ffn_up"])
        x = x + F.linear(h, w["ffn_down"])

    x = rms_norm(x, weights["output_norm.weight"], config.rms_epsilon)
    return F.linear(x, weights["token_embd.weight"])


def read_text(path):
    """The bytes of a text file as token ids: (first nine tenths, last tenth)."""
    data = torch.from_numpy(np.fromfile(path, dtype=np.uint8).astype(np.int64))
    split = len(data) * 9 // 10
    return data[:split], data[split:]


@torch.no_grad()
def evaluate(config, weights, data):
    """(nats per byte, windows) over every whole, non-overlapping context window of data."""
    length = config.context_length
    windows = data.unfold(0, length + 1, length)
    total = 0.0
    for part in windows.split(16):
        logits = forward(config, weights, part[:, :-1]).flatten(0, 1)
        total += F.cross_entropy(logits, part[:, 1:].flatten(), reduction="sum").item()
    return total / (len(windows) * length), len(windows)


def orthogonalize(gradient):
    """Brings the singular values of each matrix near one, by five Newton-Schulz steps."""
    tall = gradient.shape[-2] > gradient.shape[-1]
    x = gradient.transpose(-1, -2) if tall else gradient
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(5):
        s = x @ x.transpose(-1, -2)
        x = 3.4445 * x + (-4.7750 * s + 2.0315 * (s @ s)) @ x
    return x.transpose(-1, -2) if tall else x


class Muon(torch.optim.Optimizer):
    """Momentum whose step is orthogonalized. Each parameter group holds matrices of one shape.

    It replaces AdamW for the matrices inside the blocks: after 300 steps of 8 windows the held-out
    loss is 1.82 against 1.96.
    """

    def __init__(self, groups, lr=0.02, weight_decay=0.1, momentum=0.95):
        super().__init__(groups, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            gradient = torch.stack([p.grad for p in group["params"]])
            state = self.state[group["params"][0]]
            velocity = state.setdefault("velocity", torch.zeros_like(gradient))
            velocity.lerp_(gradient, 1 - group["momentum"])
            update = orthogonalize(gradient.lerp(velocity, group["momentum"]))
            rows, columns = gradient.shape[1:]
            update *= max(1.0, rows / columns) ** 0.5
            for parameter, delta in zip(group["params"], update):
                parameter.mul_(1 - group["lr"] * group["weight_decay"])
                parameter.sub_(delta, alpha=group["lr"])


def make_optimizers(weights):
    by_kind, others = {}, []
    for name, weight in weights.items():
        weight.requires_grad_(True)
        if name.startswith("blk.") and weight.dim() == 2:
            by_kind.setdefault(name.split(".")[2], []).append(weight)
        else:
            others.append(weight)
    return [
        Muon([{"params": matrices} for matrices in by_kind.values()]),
        torch.optim.AdamW(others, lr=3e-3, betas=(0.9, 0.99), weight_decay=0.0),
    ]


def train(config, data, held_out, args):
    generator = torch.Generator().manual_seed(args.seed)
    weights = initial_weights(config, generator)
    optimizers = make_optimizers(weights)

    def rate(step):
        decay = 0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * step / args.steps))
        return min(1.0, (step + 1) / 50) * decay

    schedules = [torch.optim.lr_scheduler.LambdaLR(o, rate) for o in optimizers]
    length = config.context_length
    start, running = time.time(), None
    for step in range(args.steps):
        starts = torch.randint(len(data) - length, (WINDOWS_PER_STEP, 1), generator=generator)
        windows = data[starts + torch.arange(length + 1)]
        logits = forward(config, weights, windows[:, :-1]).flatten(0, 1)
        loss = F.cross_entropy(logits, windows[:, 1:].flatten())
        loss.backward()
        for optimizer, schedule in zip(optimizers, schedules):
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            schedule.step()
        running = loss.item() if running is None else 0.98 * running + 0.02 * loss.item()
        if (step + 1) % 250 == 0 or step + 1 == args.steps:
            nats, _ = evaluate(config, weights, held_out)
            print(f"step {step + 1}/{args.steps}  train {running:.4f}  held out {nats:.4f}  "
                  f"{(time.time() - start) / 60:.1f} min, {time.process_time() / 60:.1f} CPU min",
                  flush=True)
    return {name: weight.detach() for name, weight in weights.items()}


def byte_tokens():
    """The printable character that the GPT-2 tokenizer writes for each byte."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    return [chr(byte) if byte in printable else chr(next(others)) for byte in range(256)]


def stored_type(name):
    """Mixed on purpose, so that one small file exercises four of a reader's types."""
    if "norm" in name:
        return gguf.GGMLQuantizationType.F32
    if "ffn" in name:
        return gguf.GGMLQuantizationType.Q8_0
    return gguf.GGMLQuantizationType.BF16 if "attn" in name else gguf.GGMLQuantizationType.F16


def save(path, config, weights):
    writer = gguf.GGUFWriter(path, "qwen3")
    writer.add_name("Shakespeare bytes")
    writer.add_description("Byte-level model trained on public domain text: Shakespeare's plays")
    writer.add_license("other")
    writer.add_license_name("Public domain text; the weights are under this repository's licence")
    for field, key in METADATA_KEYS.items():
        value = getattr(config, field)
        add = writer.add_float32 if isinstance(value, float) else writer.add_uint32
        add(f"qwen3.{key}", value)
    writer.add_value_length(config.head_length)
    writer.add_vocab_size(VOCAB_SIZE)
    # No merges: every byte stays its own token. The writer leaves empty arrays out.
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(byte_tokens() + ["<|endoftext|>"])
    writer.add_token_types([gguf.TokenType.NORMAL] * 256 + [gguf.TokenType.CONTROL])
    writer.add_eos_token_id(END_OF_TEXT)
    writer.add_add_bos_token(False)
    for name, weight in weights.items():
        kind = stored_type(name)
        writer.add_tensor(name, gguf.quants.quantize(weight.numpy(), kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def load(path):
    """(Config, weights dequantised to float32) of a stored file."""
    reader = gguf.GGUFReader(path)
    config = Config(**{field: reader.get_field(f"qwen3.{key}").contents()
                       for field, key in METADATA_KEYS.items()})
    return config, {
        tensor.name: torch.tensor(gguf.quants.dequantize(tensor.data, tensor.tensor_type))
        for tensor in reader.tensors
    }


@torch.no_grad()
def next_logits(config, weights, tokens):
    window = torch.tensor([tokens[-config.context_length :]])
    return forward(config, weights, window)[0, -1]


def generate(config, weights, prompt, count, temperature):
    """The text of count bytes after the prompt; temperature 0 takes the likeliest byte."""
    tokens = list(prompt.encode())
    for _ in range(count):
        logits = next_logits(config, weights, tokens)[:END_OF_TEXT]
        if temperature > 0:
            tokens.append(int(torch.multinomial((logits / temperature).softmax(-1), 1)))
        else:
            tokens.append(int(logits.argmax()))
    return bytes(tokens[len(prompt.encode()) :]).decode(errors="replace")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("text", nargs="?", help="plain text file, to train on or to evaluate on")
    parser.add_argument("--output", metavar="FILE", help="where training writes the model")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--evaluate", metavar="FILE", help="print the nats per byte of a model")
    mode.add_argument("--generate", metavar="FILE", help="print text sampled from a model")
    mode.add_argument("--logits", metavar="FILE", help="print the logits after a prompt as JSON")
    parser.add_argument("--prompt", default="ROMEO:")
    parser.add_argument("--count", type=int, default=40, help="bytes to generate")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=3000)
    args = parser.parse_args()
    stored = args.evaluate or args.generate or args.logits
    if not (args.text or args.generate or args.logits) or not (stored or args.output):
        parser.error("training takes a text and --output; --evaluate takes a text")

    torch.set_num_threads(1)
    config, weights = load(stored) if stored else (Config(), None)
    if args.evaluate:
        nats, windows = evaluate(config, weights, read_text(args.text)[1])
        print(f"nats per byte: {nats:.4f} ({windows} windows)")
    elif args.generate:
        torch.manual_seed(args.seed)
        print(args.prompt + generate(config, weights, args.prompt, args.count, temperature=0.8))
    elif args.logits:
        logits = next_logits(config, weights, list(args.prompt.encode()))
        print(json.dumps({
            "prompt": args.prompt,
            "greedy_text": generate(config, weights, args.prompt, args.count, temperature=0),
            "logits": [float(f"{x:.9g}") for x in logits.tolist()],
        }))
    else:
        data, held_out = read_text(args.text)
        save(args.output, config, train(config, data, held_out, args))


if __name__ == "__main__":
    main()
