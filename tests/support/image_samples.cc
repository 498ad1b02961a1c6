#include "support/image_samples.h"

#include "graph/content_hash.h"

#include <algorithm>
#include <atomic>
#include <random>
#include <stdexcept>
#include <utility>

namespace precast::test {
namespace {

/// What kernels read goes here, so that no compiler leaves it out.
std::atomic<uint64_t> seen{0};

/// The sum of the bytes of a few elements, the last one among them.
template <typename T>
uint64_t SumOf(const KernelContext& k, size_t i) {
  constexpr int64_t kMost = 16;
  TensorView<const T> tensor = k.tensor<const T>(i);
  uint64_t sum = 0;
  for (int64_t n = 0; n < std::min(tensor.size(), kMost); ++n) {
    int64_t rest = n == 0 ? tensor.size() - 1 : n - 1, offset = 0;
    for (int axis = tensor.rank() - 1; axis >= 0; --axis) {
      offset += rest % tensor.shape(axis) * tensor.stride(axis);
      rest /= tensor.shape(axis);
    }
    // Byte by byte: the validator does not see how what graph tasks bind is aligned.
    const char* bytes =
        reinterpret_cast<const char*>(tensor.data()) + offset * static_cast<int64_t>(sizeof(T));
    for (size_t b = 0; b < sizeof(T); ++b) sum += static_cast<uint8_t>(bytes[b]);
  }
  return sum;
}

uint64_t SumOf(const KernelContext& k, size_t i) {
  switch (SizeOf(k.dtype(i))) {
    case 1:
      return k.dtype(i) == DType::u8 ? SumOf<uint8_t>(k, i) : 0;
    case 4:
      return k.dtype(i) == DType::f32   ? SumOf<float>(k, i)
             : k.dtype(i) == DType::i32 ? SumOf<int32_t>(k, i)
                                        : 0;
    case 8:
      return k.dtype(i) == DType::u64 ? SumOf<uint64_t>(k, i) : 0;
    default:
      return 0;
  }
}

PRECAST_KERNEL(read_all, Core::vector)(const KernelContext& k) {
  uint64_t sum = k.block() + k.sub_block() + k.task_name().size();
  for (size_t i = 0; i < k.tensors(); ++i) sum += SumOf(k, i);
  for (size_t i = 0; i < k.scalars(); ++i) {
    try {
      sum += k.scalar<uint64_t>(i);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::mismatch) throw;  // of another type
    }
  }
  seen.fetch_add(sum, std::memory_order_relaxed);
}
PRECAST_KERNEL(read_too, Core::vector)(const KernelContext& k) { read_all_body(k); }
PRECAST_KERNEL(read_cube, Core::cube)(const KernelContext& k) { read_all_body(k); }
constexpr Kernel kKernels[] = {read_all, read_too, read_cube};
enum : uint32_t { kRead, kReadToo, kReadCube };

/// Seals the graph as the image of a run without addresses.
TestImage SealRun(TestGraph& g) {
  TestImage image = g.Seal();
  auto* slots = abi::At<abi::Slot>(image.data(), image.header()->slots);
  for (uint64_t i = 0; i < image.header()->slots.count; ++i) slots[i].address = 0;
  return image;
}

/// A definition with two boundary tensors and one scalar, under construction.
struct Defined {
  TestGraph g{1 << 20};
  Tensor x = g.Data<uint64_t>({8}), y = g.Data<float>({2, 3});

  static Arg Bound() { return Arg::bound_scalar(1, 0, DType::u64, 0); }

  TestImage Seal() {
    abi::Slot slots[] = {{0, g.builder().heap().peak_bytes()}, {0, 64}, {0, 24}};
    TestImage image = g.SealDefinition(slots, 1);
    image.header()->content_hash = graph::ContentHash(image.span());
    return image;
  }
};

/// Adds a graph task that makes an instance of a definition.
void SubmitGraph(TestGraph& g, const TestImage& definition, uint32_t index, ArgList args,
                 const graph::TaskSpec& task = {}) {
  static constexpr uint32_t kSlotBegin[] = {0, 1};
  const abi::Header& h = *definition.header();
  uint64_t scratch = abi::ScratchHeapOffset(h.slots.count, h.scalars, h.tasks) + h.heap_bytes;
  g.builder().SubmitGraph(task, {index, scratch, kSlotBegin}, args);
}

ImageSample Empty() {
  TestGraph g;
  return {"empty", {}, SealRun(g)};
}

/// A bit of everything that an image without graphs can hold.
ImageSample Everything() {
  TestGraph g;
  Tensor x = g.Data<float>({4, 6}), flags = g.Data<uint8_t>({3}), n = g.Data<int32_t>({});
  g.Submit(kRead, {inout(x), 1.5f}, {.name = "begin"});
  g.Submit(kRead, {inout(n)});
  for (int64_t i = 0; i < 8; ++i) {
    g.Submit(kReadToo, {in(x), in(n), in(flags.view({i % 3}, {1}))}, {.blocks = 2, .name = "read"});
  }
  Predicate on = {flags.select(0, 1), Compare::less, 5};
  abi::TaskId last = g.Submit(kRead, {in(x.select(1, 3)), inout(n), int64_t{-1}}, {.when = &on});
  abi::Mix mix{{kReadCube, kRead, kReadToo}, 3};
  g.Submit(mix, {inout(x.view({1, 1}, {2, 2})), in(n)}, {.blocks = 3, .name = "mixed"});
  Tensor t = g.builder().Alloc({5}, DType::f32);
  g.Submit(kRead, {out(t)});
  g.Submit(abi::kNoKernel, {}, {.name = "end", .after = {last}});
  return {"everything", {}, SealRun(g)};
}

/// One task that more wait for than a record and a chunk hold.
ImageSample Chunks() {
  TestGraph g;
  Tensor x = g.Data<int32_t>({40});
  g.Submit(kRead, {inout(x)});
  for (int64_t i = 0; i < 40; ++i) g.Submit(kRead, {inout(x.view({i}, {1}))});
  g.Submit(kRead, {in(x)});
  return {"chunks", {}, SealRun(g)};
}

/// Created tensors that take each other's bytes.
ImageSample Scopes() {
  TestGraph g(4096);
  Tensor x = g.Data<float>({64});
  for (int i = 0; i < 6; ++i) {
    uint32_t scope = g.builder().OpenScope();
    Tensor a = g.builder().Alloc({16, 16}, DType::f32), b = g.builder().Alloc({64}, DType::f32);
    g.Submit(kRead, {in(x), out(a)});
    g.Submit(kRead, {in(a.view({0, 0}, {4, 16})), out(b)}, {.blocks = 4});
    g.Submit(kReadToo, {in(b), inout(x)});
    g.builder().CloseScope(scope);
  }
  return {"scopes", {}, SealRun(g)};
}

ImageSample Random(uint32_t seed, int tasks) {
  std::mt19937 random(seed);
  auto below = [&](int64_t n) { return static_cast<int64_t>(random()) % n; };
  TestGraph g;
  Tensor tensors[] = {g.Data<float>({8, 8}), g.Data<int32_t>({8, 8}), g.Data<uint64_t>({8, 8})};
  std::vector<abi::TaskId> done;
  for (int i = 0; i < tasks; ++i) {
    std::vector<Arg> args;
    for (const Tensor& tensor : tensors) {
      int64_t row = below(8), column = below(8), kind = below(5);
      Tensor view = tensor.view({row, column}, {1 + below(8 - row), 1 + below(8 - column)});
      if (kind == 0) args.push_back(inout(view));
      if (kind == 1) args.push_back(out(view));
      if (kind == 2) args.push_back(no_dep(view));
      if (kind == 3) args.push_back(in(view));
    }
    for (int64_t s = below(3); s > 0; --s) args.push_back(static_cast<uint64_t>(s));
    TestGraph::Options options{.blocks = static_cast<uint32_t>(1 + below(3))};
    Predicate when = {tensors[1].select(0, 1).select(0, 1), Compare::greater, 0};
    if (below(4) == 0) options.when = &when;
    if (below(4) == 0 && !done.empty()) options.after.push_back(done[random() % done.size()]);
    done.push_back(g.Submit(static_cast<uint32_t>(below(2)), args, options));
  }
  return {"random " + std::to_string(seed), {}, SealRun(g)};
}

/// A definition with a heap, a bound scalar and a task that nobody waits for.
TestImage SmallDefinition() {
  Defined d;
  d.g.Submit(kRead, {inout(d.x), Defined::Bound()}, {.blocks = 3});
  Tensor t = d.g.builder().Alloc({8}, DType::u64);
  d.g.Submit(kReadToo, {in(d.x), out(t)}, {.name = "t"});
  d.g.Submit(kRead, {in(d.x), in(d.y)});
  d.g.Submit(kRead, {in(t), out(d.x)});
  return d.Seal();
}

/// Instances in a chain, whose scratch is the same bytes, and some with a condition.
ImageSample Graphs() {
  ImageSample sample;
  sample.name = "graphs";
  sample.definitions.push_back(SmallDefinition());
  const TestImage& definition = sample.definitions[0];
  TestGraph g(1 << 16);
  Tensor x = g.Data<uint64_t>({16}), y = g.Data<float>({2, 3}), flag = g.Data<int32_t>({1});
  g.builder().AddDefinition(definition.header()->content_hash);
  Tensor low = x.view({0}, {8}), high = x.view({8}, {8});
  Predicate on = when(flag, {0}, Compare::equal, 0);
  graph::TaskSpec maybe;
  maybe.predicate = &on.element, maybe.compare = on.compare, maybe.constant = on.constant;
  for (uint64_t i = 0; i < 3; ++i) {
    SubmitGraph(g, definition, 0, {inout(low), in(y), i});
    SubmitGraph(g, definition, 0, {inout(high), in(y), i}, maybe);
    g.Submit(kRead, {inout(x)});
  }
  sample.run = SealRun(g);
  return sample;
}

/// Graphs in graphs, which pass their scalars on.
ImageSample Nested() {
  ImageSample sample;
  sample.name = "nested";
  sample.definitions.push_back(SmallDefinition());
  Defined outer;
  outer.g.builder().AddDefinition(sample.definitions[0].header()->content_hash);
  SubmitGraph(outer.g, sample.definitions[0], 0, {inout(outer.x), in(outer.y), uint64_t{5}});
  SubmitGraph(outer.g, sample.definitions[0], 0, {inout(outer.x), in(outer.y), Defined::Bound()});
  outer.g.Submit(kRead, {inout(outer.x), in(outer.y), Defined::Bound()});
  sample.definitions.push_back(outer.Seal());

  TestGraph g(1 << 16);
  Tensor x = g.Data<uint64_t>({8}), y = g.Data<float>({2, 3});
  g.builder().AddDefinition(sample.definitions[1].header()->content_hash);
  g.builder().AddDefinition(sample.definitions[0].header()->content_hash);
  for (uint64_t i = 0; i < 2; ++i) {
    SubmitGraph(g, sample.definitions[1], 0, {inout(x), in(y), i});
    SubmitGraph(g, sample.definitions[0], 1, {inout(x), in(y), i});
  }
  sample.run = SealRun(g);
  return sample;
}

}  // namespace

std::span<const Kernel> SampleKernels() { return kKernels; }

std::vector<ImageSample> ImageSamples() {
  std::vector<ImageSample> samples;
  for (auto make : {Empty, Everything, Chunks, Scopes, Graphs, Nested}) samples.push_back(make());
  for (uint32_t seed = 1; seed <= 3; ++seed) samples.push_back(Random(seed, 20));
  return samples;
}

ImageSample NamedImageSample(std::string_view name) {
  for (ImageSample& sample : ImageSamples()) {
    if (sample.name == name) return std::move(sample);
  }
  throw std::logic_error("no image sample of that name");
}

std::vector<const abi::Header*> DefinitionsOf(const TestImage& image,
                                              std::span<const TestImage> definitions) {
  std::vector<const abi::Header*> found;
  const auto* records = abi::At<abi::Definition>(image.data(), image.header()->definitions);
  for (uint64_t i = 0; i < image.header()->definitions.count; ++i) {
    auto same = [&](const TestImage& d) { return d.header()->content_hash == records[i].hash; };
    auto definition = std::find_if(definitions.begin(), definitions.end(), same);
    if (definition == definitions.end()) throw std::logic_error("an unknown definition");
    found.push_back(definition->header());
  }
  return found;
}

void LinkDefinitions(TestImage& image, std::span<const abi::Header* const> definitions) {
  auto* records = abi::At<abi::Definition>(image.data(), image.header()->definitions);
  for (size_t i = 0; i < definitions.size(); ++i) {
    records[i].address = reinterpret_cast<uint64_t>(definitions[i]);
  }
}

void LinkSlots(TestImage& image, std::vector<TestImage>* memory) {
  auto* slots = abi::At<abi::Slot>(image.data(), image.header()->slots);
  memory->clear();
  for (uint64_t i = 0; i < image.header()->slots.count; ++i) {
    memory->emplace_back(slots[i].bytes);
    std::memset(memory->back().data(), 0, slots[i].bytes);
    slots[i].address = memory->back().address();
  }
}

}  // namespace precast::test
