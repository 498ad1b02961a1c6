// precast_parser_seeds DIRECTORY: writes what each target of fuzzing begins with, one folder a
// target: images and files as our own code writes them, and one input for each thing that a target
// can be asked.
#include "parsers/target.h"
#include "qwen3/random_model.h"
#include "support/image_samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace precast::test {
namespace {

namespace fs = std::filesystem;
using std::string_literals::operator""s;

class Seeds {
 public:
  Seeds(const fs::path& directory, std::string_view target) : directory_(directory / target) {
    fs::create_directories(directory_);
  }
  void Add(std::string_view bytes) {
    std::ofstream out(directory_ / fmt::format("seed{:02}", count_++), std::ios::binary);
    out.exceptions(std::ios::badbit | std::ios::failbit);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }

 private:
  fs::path directory_;
  int count_ = 0;
};

/// A sample as FuzzImage takes it: definitions are named by number.
std::string Joined(ImageSample sample) {
  auto number = [&](TestImage& image) {
    auto* records = abi::At<abi::Definition>(image.data(), image.header()->definitions);
    for (uint64_t i = 0; i < image.header()->definitions.count; ++i) {
      auto same = [&](TestImage& d) { return d.header()->content_hash == records[i].hash; };
      records[i].hash = static_cast<uint64_t>(
          std::find_if(sample.definitions.begin(), sample.definitions.end(), same) -
          sample.definitions.begin());
    }
  };
  for (TestImage& definition : sample.definitions) number(definition);
  number(sample.run);
  std::string bytes;
  for (const TestImage& definition : sample.definitions) {
    bytes.append(definition.data(), definition.size());
  }
  return bytes.append(sample.run.data(), sample.run.size());
}

void WriteImages(Seeds seeds) {
  for (ImageSample& sample : ImageSamples()) seeds.Add(Joined(std::move(sample)));
}

void WriteGguf(Seeds seeds) {
  using namespace qwen3;
  Config small{.layers = 1,
               .embedding = 2,
               .feed_forward = 1,
               .heads = 1,
               .kv_heads = 1,
               .head_dim = 2,
               .context = 4,
               .vocab = 2,
               .rms_eps = 1e-6f,
               .rope_base = 10,
               .tied_output = false};
  seeds.Add(RandomModel({.config = small, .tokenizer = false}));
  seeds.Add(RandomModel({.config = small, .type = GgufType::f16, .tokenizer = false}));
  small.vocab = 257;
  small.tied_output = true;
  seeds.Add(RandomModel({.config = small, .type = GgufType::bf16}));

  std::ostringstream out;
  GgufWriter writer(out, 8);
  writer.Key("a", std::vector<uint8_t>{1, 2, 3});
  writer.Key("b", true);
  writer.Key("c", -1.5);
  writer.Key("d", std::vector<std::string>{"x", ""});
  writer.Key("e", int64_t{-1});
  writer.Tensor("q", GgufType::q8_0, {2, 32});
  writer.Tensor("f", GgufType::f32, {1, 2, 1, 2});
  writer.Append(std::vector<float>(64, 0.5f));
  writer.Append(std::vector<float>{1, 2, 3, 4});
  writer.Finish();
  seeds.Add(out.str());
}

void WriteCommands(Seeds seeds) {
  for (std::string_view line :
       {"",
        "--help",
        "--version",
        "run",
        "run sample",
        "run sample --help",
        "list --help",
        "run sample --n 3 --prompt=x --set n=4 --set prompt=",
        "run --case other sample",
        "run sample --platform a2a3sim:host_page=64k --threads 2 --heap 64K --rounds 3",
        "run sample --report json --golden skip --host-views copy --host-view-budget 1G",
        "run sample --definition-budget 0 --verify-replays --upload per-submission --oracle",
        "run sample --log-level trace --skip-device-run",
        "run sample -- x",
        "run smaple",
        "ab sample --a '--threads 1' --b \"--threads 2\" --segments 4 --rounds 3 --trim 1 --json",
        "ab sample --bin-a x --bin-b y",
        "probe --budget-us 3 --json --platform cpu",
        "bench submit --n 10",
        "list --json",
        "lsit"}) {
    std::string bytes = "c";
    for (char c : line) bytes += c == ' ' ? '\0' : c;
    seeds.Add(bytes);
  }
  for (std::string_view platform :
       {"cpu", "a2a3sim:host_page=4k", "a5sim:", "a2a3sim:host_page=4k,x=1"}) {
    seeds.Add("p" + std::string(platform));
  }
  for (std::string_view size : {"64K", "1GiB", "18446744073709551615", "16384P"}) {
    seeds.Add("s" + std::string(size));
  }
  for (const std::string& setting : {"n\0"
                                     "16"s,
                                     "prompt\0x"s,
                                     "n\0"
                                     "1e400"s}) {
    seeds.Add("k" + setting);
  }
}

void WritePrograms(Seeds seeds) {
  // One kernel, two arguments, a case, a parameter; then the arguments of two runs.
  std::string whole = "\0sum\0adds\0"s + "\1\1add\0\1\1\1cpu\0"s + "\2\1\13\3x\0\3\13\3y\0"s +
                      "\1default\0first\0\1"s + "\1n\0001\0a number\0"s + "\0\1\1\1\1\1\1"s;
  seeds.Add(whole);
  whole[0] = 2;  // replayable
  seeds.Add(whole);
  whole[0] = 1;  // variadic
  seeds.Add(whole);
  seeds.Add("\0p\0\0\0\0\0\0"s);
  seeds.Add("\4p\0\0\0\0\0\0"s);
}

void WriteTexts(Seeds seeds) {
  for (std::string_view text :
       {"the thing's in the theatre, 1234 times", "  two\n\n\tlines \r\n x", "aaaaaaaaa",
        "caf\xc3\xa9 \xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\x98\x80", "<|end|><|en<|",
        "\xff\xc3(\xed\xa0\x80", "\xc2\xa0\xe2\x80\x83 x\xcc\x81"}) {
    seeds.Add(text);
  }
}

}  // namespace
}  // namespace precast::test

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: precast_parser_seeds DIRECTORY\n");
    return 2;
  }
  using namespace precast::test;
  const fs::path directory = argv[1];
  WriteCommands({directory, "command"});
  WriteGguf({directory, "gguf"});
  WriteImages({directory, "image"});
  WritePrograms({directory, "program"});
  WriteTexts({directory, "tokenizer"});
  return 0;
}
