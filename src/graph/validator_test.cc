#include "graph/validator.h"

#include "sched/oracle.h"
#include "support/test_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace precast::graph {
namespace {

using test::TestGraph;
using test::TestImage;
using testing::HasSubstr;

/// Reads every element of what it may read and writes every element of what it may write, so that
/// an argument beyond its memory is noticed.
PRECAST_KERNEL(touch, Core::vector)(const KernelContext& k) {
  uint64_t sum = k.block();
  auto visit = [&](auto element, size_t i) {
    using T = decltype(element);
    auto tensor = k.tensor<const T>(i);
    for (int64_t e = 0; e < tensor.size(); ++e) sum += static_cast<uint64_t>(tensor[e]);
  };
  for (size_t i = 0; i < k.tensors(); ++i) {
    switch (k.dtype(i)) {
      case DType::u8:
        visit(uint8_t{}, i);
        break;
      case DType::i32:
        visit(int32_t{}, i);
        break;
      case DType::f32:
        visit(float{}, i);
        break;
      default:
        break;
    }
  }
  if (sum == 0xdeadbeef) k.fail("unlikely");
}
PRECAST_KERNEL(touch_too, Core::vector)(const KernelContext& k) { touch_body(k); }
PRECAST_KERNEL(touch_cube, Core::cube)(const KernelContext& k) { touch_body(k); }

std::string MessageOf(const TestImage& image, uint32_t kernels = 3) {
  try {
    Validate(image.span(), {.kernels = kernels});
  } catch (const Error& error) {
    EXPECT_EQ(Name(error.code()), Name(ErrorCode::bad_file));
    return error.message();
  }
  return "";
}

/// A bit of everything that an image can hold.
void BuildSmall(TestGraph& g) {
  Tensor x = g.Data<float>({4, 6});
  Tensor flags = g.Data<uint8_t>({3});
  Tensor n = g.Data<int32_t>({});
  uint32_t kernel = g.Kernel(touch), other = g.Kernel(touch_too), cube = g.Kernel(touch_cube);
  g.Submit(kernel, {inout(x), 1.5f}, {.name = "begin"});
  g.Submit(kernel, {inout(n)});
  for (int64_t i = 0; i < 8; ++i) {
    g.Submit(other, {in(x), in(n), in(flags.view({i % 3}, {1}))}, {.blocks = 2, .name = "read"});
  }
  Predicate on = {flags.select(0, 1), Compare::less, 5};
  abi::TaskId last = g.Submit(kernel, {in(x.select(1, 3)), inout(n), int64_t{-1}}, {.when = &on});
  abi::Mix mix{{cube, kernel, other}, 3};
  g.Submit(mix, {inout(x.view({1, 1}, {2, 2})), in(n)}, {.blocks = 3, .name = "mixed"});
  Tensor t = g.builder().Alloc({5}, DType::f32);
  g.Submit(kernel, {out(t)});
  g.Submit(abi::kNoKernel, {}, {.name = "end", .after = {last}});
}

TEST(ValidatorTest, AcceptsWhatTheBuilderWrites) {
  TestGraph g;
  BuildSmall(g);
  TestImage image = g.Seal();
  EXPECT_EQ(MessageOf(image), "");
  EXPECT_GT(image.header()->chunks.count, 0u);
}

TEST(ValidatorTest, AcceptsAnImageWithoutTasks) {
  TestGraph g;
  EXPECT_EQ(MessageOf(g.Seal()), "");
}

TEST(ValidatorTest, AcceptsRandomGraphs) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    auto below = [&](uint32_t n) { return static_cast<int64_t>(random() % n); };
    TestGraph g;
    std::vector<Tensor> tensors;
    for (int i = 0; i < 4; ++i) tensors.push_back(g.Data<float>({16, 16}));
    std::vector<abi::TaskId> tasks;
    uint32_t kernel = g.Kernel(touch);
    for (int i = 0; i < 300; ++i) {
      std::vector<Arg> args;
      for (size_t t = 0; t < tensors.size(); ++t) {
        if (below(3) == 0) continue;
        int64_t row = below(16), column = below(16);
        Tensor view =
            tensors[t].view({row, column}, {1 + below(static_cast<uint32_t>(16 - row)),
                                            1 + below(static_cast<uint32_t>(16 - column))});
        switch (below(8)) {
          case 0:
            args.push_back(inout(view));
            break;
          case 1:
            args.push_back(out(view));
            break;
          case 2:
            args.push_back(no_dep(view));
            break;
          default:
            args.push_back(in(view));
            break;
        }
      }
      for (int64_t s = below(3); s > 0; --s) args.push_back(s);
      TestGraph::Options options;
      std::string name = "name " + std::to_string(below(9));
      if (below(4) == 0) options.name = name;
      for (int64_t a = tasks.empty() ? 0 : below(3); a > 0; --a) {
        options.after.push_back(tasks[random() % tasks.size()]);
      }
      options.blocks = static_cast<uint32_t>(1 + below(4));
      tasks.push_back(g.Submit(below(10) == 0 ? abi::kNoKernel : kernel, args, options));
    }
    ASSERT_EQ(MessageOf(g.Seal(), 1), "") << "seed " << seed;
  }
}

// What is rejected, and with which words.

struct Damage {
  const char* says;
  std::function<void(abi::Header&, char* image)> make;
};

abi::Task& TaskNumber(abi::Header& header, uint32_t number) {
  abi::TaskId id = abi::kFirstTask;
  while (number-- > 0) id += abi::TaskAt(&header, id)->units;
  return *abi::TaskAt(&header, id);
}
template <typename Record>
Record& At(abi::Header& header, const abi::Section& section, size_t i) {
  return abi::At<Record>(&header, section)[i];
}
abi::Argument& Argument(abi::Task& task, size_t i) {
  return const_cast<abi::Argument&>(abi::Arguments(&task)[i]);
}

const std::vector<Damage>& Damages() {
  using H = abi::Header;
  static const std::vector<Damage> damages = {
      {"header: magic", [](H& h, char*) { h.magic ^= 1; }},
      {"header: version 2", [](H& h, char*) { h.version = 2; }},
      {"bytes in total", [](H& h, char*) { h.total_bytes += 64; }},
      {"bytes of tasks", [](H& h, char*) { h.task_bytes += 1; }},
      {"bytes of tasks", [](H& h, char*) { h.task_bytes = ~uint64_t{63}; }},
      {"header: 99 tasks", [](H& h, char*) { h.tasks = 99; }},
      {"header: 99 edges", [](H& h, char*) { h.edges = 99; }},
      {"header: 99 blocks", [](H& h, char*) { h.blocks = 99; }},
      {"section chunks: at byte", [](H& h, char*) { h.chunks.offset += 64; }},
      {"section layouts: 288230376151711744 records",
       [](H& h, char*) { h.layouts.count = uint64_t{1} << 58; }},
      {"section names", [](H& h, char*) { h.names.count = ~uint64_t{0}; }},
      {"section slots", [](H& h, char*) { h.slots.count = 1'000; }},
      {"layouts[1]: dtype 77", [](H& h, char*) { At<abi::Layout>(h, h.layouts, 1).dtype = 77; }},
      {"layouts[1]: rank 6", [](H& h, char*) { At<abi::Layout>(h, h.layouts, 1).rank = 6; }},
      {"layouts[1]: extent 0", [](H& h, char*) { At<abi::Layout>(h, h.layouts, 1).shape[0] = 0; }},
      {"layouts[1]: 24 elements in 96 bytes; its shape and strides give 24 in 108",
       [](H& h, char*) {
         At<abi::Layout>(h, h.layouts, 1).strides[0] = 7;
         At<abi::Layout>(h, h.layouts, 1).extent = 96;
       }},
      {"layouts[1]: its shape and strides go beyond",
       [](H& h, char*) {
         for (uint32_t& extent : At<abi::Layout>(h, h.layouts, 1).shape) extent = ~0u;
         At<abi::Layout>(h, h.layouts, 1).rank = 5;
       }},
      {"layouts[1]: contiguous is 0",
       [](H& h, char*) { At<abi::Layout>(h, h.layouts, 1).contiguous = 0; }},
      {"layouts[1]: 8 bytes for an element of 4",
       [](H& h, char*) { At<abi::Layout>(h, h.layouts, 1).element_bytes = 8; }},
      {"predicates[0]: dtype 12",
       [](H& h, char*) { At<abi::Predicate>(h, h.predicates, 0).dtype = 12; }},
      {"predicates[0]: comparison 6",
       [](H& h, char*) { At<abi::Predicate>(h, h.predicates, 0).compare = 6; }},
      {"predicates[0]: slot 44",
       [](H& h, char*) { At<abi::Predicate>(h, h.predicates, 0).slot = 44; }},
      {"predicates[0]: byte 3 of slot 2, which has 3",
       [](H& h, char*) { At<abi::Predicate>(h, h.predicates, 0).offset = 3; }},
      {"mixes[0]: 4 kernels", [](H& h, char*) { At<abi::Mix>(h, h.mixes, 0).kernels = 4; }},
      {"mixes[0]: kernel 3 of 3", [](H& h, char*) { At<abi::Mix>(h, h.mixes, 0).kernel[1] = 3; }},
      {"names[1]: bytes", [](H& h, char*) { At<abi::Name>(h, h.names, 1).bytes = 1'000; }},
      {"task at 4: number 7", [](H& h, char*) { TaskNumber(h, 0).number = 7; }},
      {"task 0: kernel 3 of 3", [](H& h, char*) { TaskNumber(h, 0).kernel = 3; }},
      {"task 11: mix 1 of 1", [](H& h, char*) { TaskNumber(h, 11).kernel = 1; }},
      {"task 0: 0 blocks", [](H& h, char*) { TaskNumber(h, 0).blocks = 0; }},
      {"task 0: flags 0x8", [](H& h, char*) { TaskNumber(h, 0).flags = 8; }},
      {"task 1: 0 units", [](H& h, char*) { TaskNumber(h, 1).units = 0; }},
      {"units of 64 bytes", [](H& h, char*) { TaskNumber(h, 13).units = 999; }},
      {"its 6 arguments take 3", [](H& h, char*) { TaskNumber(h, 0).scalars = 5; }},
      {"task 0: name 9", [](H& h, char*) { TaskNumber(h, 0).name = 9; }},
      {"task 0: predicate 2 of 1", [](H& h, char*) { TaskNumber(h, 0).predicate = 2; }},
      {"task 0: tensor 0 in slot 9", [](H& h, char*) { Argument(TaskNumber(h, 0), 0).slot = 9; }},
      {"task 0: tensor 0 has layout 0",
       [](H& h, char*) { Argument(TaskNumber(h, 0), 0).layout = 0; }},
      {"task 0: tensor 0 has layout 99",
       [](H& h, char*) { Argument(TaskNumber(h, 0), 0).layout = 99; }},
      {"task 0: tensor 0 has direction 5",
       [](H& h, char*) { Argument(TaskNumber(h, 0), 0).direction = 5; }},
      {"task 0: tensor 0 takes 96 bytes from byte 4 of slot 1, which has 96",
       [](H& h, char*) { Argument(TaskNumber(h, 0), 0).offset = 4; }},
      {"task 0: tensor 0 takes 96 bytes from byte 18446744073709551615",
       [](H& h, char*) { Argument(TaskNumber(h, 0), 0).offset = ~uint64_t{0}; }},
      {"task 11: tensor 0 at byte 26 of slot 1 is not aligned to its 4 byte elements",
       [](H& h, char*) { Argument(TaskNumber(h, 11), 0).offset -= 2; }},
      {"task 0: scalar 0 has dtype 0",
       [](H& h, char*) { const_cast<abi::Scalar*>(abi::Scalars(&TaskNumber(h, 0)))->dtype = 0; }},
      {"is no later task", [](H& h, char*) { TaskNumber(h, 0).consumer[0] += 1; }},
      {"is no later task", [](H& h, char*) { TaskNumber(h, 0).consumer[0] = 4; }},
      {"is no later task", [](H& h, char*) { TaskNumber(h, 0).consumer[0] = 1 << 30; }},
      {"is no later task",
       [](H& h, char*) { TaskNumber(h, 0).consumer[1] = TaskNumber(h, 0).consumer[0]; }},
      {"beyond its", [](H& h, char*) { TaskNumber(h, 13).consumer[3] = 1; }},
      {"task 0: chunk 9 of", [](H& h, char*) { TaskNumber(h, 0).chunk = 9; }},
      {"chunks[0]: used twice", [](H& h, char*) { TaskNumber(h, 1).chunk = 1; }},
      {"beyond its", [](H& h, char*) { At<abi::ConsumerChunk>(h, h.chunks, 0).older = 1; }},
      {"of no task",
       [](H& h, char*) {
         TaskNumber(h, 1).chunk = 0;
         TaskNumber(h, 1).consumers = 6;
       }},
      {"task 2: 1 producers, 2 tasks name it", [](H& h, char*) { TaskNumber(h, 2).producers = 1; }},
      {"roots[0]: 5, but", [](H& h, char*) { At<abi::TaskId>(h, h.roots, 0) = 5; }},
  };
  return damages;
}

TEST(ValidatorTest, NamesTheSectionAndTheIndex) {
  TestGraph g;
  BuildSmall(g);
  TestImage image = g.Seal();
  for (const Damage& damage : Damages()) {
    TestImage broken = image;
    damage.make(*broken.header(), broken.data());
    EXPECT_THAT(MessageOf(broken), HasSubstr(damage.says));
  }
}

TEST(ValidatorTest, RejectsEveryTruncation) {
  TestGraph g;
  BuildSmall(g);
  TestImage image = g.Seal();
  for (uint64_t bytes = 0; bytes < image.size(); bytes += bytes < 300 ? 1 : 13) {
    TestImage cut(bytes);
    std::memcpy(cut.data(), image.data(), bytes);
    EXPECT_NE(MessageOf(cut), "") << bytes;
    if (bytes >= sizeof(abi::Header)) {
      cut.header()->total_bytes = bytes;
      EXPECT_NE(MessageOf(cut), "") << bytes;
    }
  }
}

/// What an accepted flip may have changed: (record, field) by position.
std::string PlaceOf(const TestImage& image, uint64_t byte) {
  const abi::Header& h = *image.header();
  auto in = [&](const abi::Section& section, size_t record) {
    return byte >= section.offset && byte < section.offset + section.count * record;
  };
  if (byte < sizeof(abi::Header)) {
    return byte - offsetof(abi::Header, content_hash) < 8 ? "content hash" : "header reserved";
  }
  if (byte < sizeof(abi::Header) + h.task_bytes) {
    abi::TaskId id = abi::kFirstTask;
    while (byte >= (uint64_t{id} + abi::TaskAt(&h, id)->units) * abi::kUnit) {
      id += abi::TaskAt(&h, id)->units;
    }
    const abi::Task* task = abi::TaskAt(&h, id);
    uint64_t at = byte - uint64_t{id} * abi::kUnit;
    if (at < sizeof(abi::Task)) {
      if (at - offsetof(abi::Task, kernel) < 4) return "task kernel";
      if (at - offsetof(abi::Task, name) < 4) return "task name";
      if (at - offsetof(abi::Task, predicate) < 4) return "task predicate";
      if (at == offsetof(abi::Task, reserved)) return "task reserved";
      if (at - offsetof(abi::Task, blocks) < 4 && task->kernel == abi::kNoKernel) {
        return "task blocks without a kernel";
      }
      if (at == offsetof(abi::Task, flags)) return "task flags";
      if (at - offsetof(abi::Task, tensors) < 4) return "task arguments";
      return "task";
    }
    at = (at - sizeof(abi::Task)) / sizeof(abi::Argument);
    if (at < task->tensors) return "argument";
    return at < uint64_t{task->tensors} + task->scalars ? "scalar" : "padding";
  }
  if (in(h.layouts, sizeof(abi::Layout))) return "layout";
  if (in(h.chunks, sizeof(abi::ConsumerChunk))) return "chunk";
  if (in(h.predicates, sizeof(abi::Predicate))) return "predicate";
  if (in(h.mixes, sizeof(abi::Mix))) return "mix";
  if (in(h.names, sizeof(abi::Name))) return "name";
  if (in(h.name_bytes, 1)) return "name bytes";
  if (in(h.roots, sizeof(abi::TaskId))) return "root";
  if (in(h.slots, sizeof(abi::Slot))) return "slot";
  return "padding";
}

// Each flip of one bit is rejected, or harmless: what is accepted runs to its end and touches no
// memory but its slots. (The address sanitizer watches; the slots are those of this process.)
TEST(ValidatorTest, SurvivesEveryFlipOfABit) {
  TestGraph g;
  BuildSmall(g);
  TestImage image = g.Seal();
  std::map<std::string, int> accepted;
  int rejected = 0;
  TestImage broken = image;
  for (uint64_t bit = 0; bit < image.size() * 8; ++bit) {
    std::memcpy(broken.data(), image.data(), image.size());
    broken.data()[bit / 8] = static_cast<char>(broken.data()[bit / 8] ^ (1 << bit % 8));
    if (!MessageOf(broken).empty()) {
      ++rejected;
      continue;
    }
    ++accepted[PlaceOf(image, bit / 8)];
    std::memcpy(broken.data() + broken.header()->slots.offset,
                image.data() + image.header()->slots.offset,
                image.header()->slots.count * sizeof(abi::Slot));
    uint64_t completed = 0;
    sched::RunOracle(g.Instance(broken), {}, &completed);
    ASSERT_EQ(completed, image.header()->tasks) << "bit " << bit;
  }
  // Everything that the device follows is checked: of these records no flip is accepted.
  for (const char* place : {"task", "chunk", "root", "task flags"}) {
    EXPECT_EQ(accepted.count(place), 0u) << place << ": " << accepted[place];
  }
  for (const auto& [place, count] : accepted) RecordProperty("accepted in " + place, count);
  EXPECT_GT(rejected, 0);
}

// Several random bytes at once: whatever it says, it does not crash.
TEST(ValidatorTest, SurvivesRandomDamage) {
  TestGraph g;
  BuildSmall(g);
  TestImage image = g.Seal();
  std::mt19937 random(1);
  TestImage broken = image;
  for (int round = 0; round < 20'000; ++round) {
    std::memcpy(broken.data(), image.data(), image.size());
    for (uint32_t i = 0; i < 1 + random() % 8; ++i) {
      // Mostly whole words of the header and the sections' ends, where sizes and ids are.
      uint64_t word = random() % (image.size() / 4);
      uint32_t value = random() % 4 == 0 ? static_cast<uint32_t>(random()) : random() % 16;
      std::memcpy(broken.data() + word * 4, &value, 4);
    }
    MessageOf(broken);
  }
}

}  // namespace
}  // namespace precast::graph
