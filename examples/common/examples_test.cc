// Every example, on every platform, in every mode: its golden check passes, and its outputs have
// the bytes that the oracle gives.
#include "base/tensor_access.h"

#include <precast/precast.h>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

const precast::Program& precast_program_vector_add();
const precast::Program& precast_program_bgemm();
const precast::Program& precast_program_paged_attention();
const precast::Program& precast_program_qwen3_14b_decode();

namespace precast::examples {
namespace {

using Settings = std::vector<std::pair<std::string, std::string>>;

struct Example {
  const Program& (*program)();
  std::string case_name;
  Settings settings = {};
};

std::vector<Example> Examples() {
  return {{precast_program_vector_add, "small"},
          {precast_program_vector_add, "small", {{"n", "1"}}},
          {precast_program_vector_add, "default"},
          {precast_program_bgemm, "small"},
          {precast_program_bgemm, "small", {{"tile", "64"}}},
          {precast_program_bgemm, "small", {{"batch", "1"}, {"m", "7"}, {"n", "1"}, {"tile", "3"}}},
          {precast_program_bgemm, "default", {{"batch", "1"}}},
          {precast_program_paged_attention, "small1"},
          {precast_program_paged_attention, "small2"},
          {precast_program_paged_attention, "small2", {{"batch", "3"}}},
          {precast_program_paged_attention, "ragged"},
          {precast_program_paged_attention, "small1_child_memory"},
          {precast_program_paged_attention, "Case1_child_memory", {{"batch", "1"}}},
          {precast_program_paged_attention, "grow_child_memory"},
          {precast_program_paged_attention, "grow_child_memory", {{"reads", "element"}}},
          {precast_program_paged_attention, "ragged", {{"reads", "element"}}},
          {precast_program_paged_attention, "ragged", {{"reads", "table"}}},
          {precast_program_paged_attention, "Case2", {{"batch", "1"}}},
          {precast_program_qwen3_14b_decode, "default", {{"scale", "small"}}}};
}

std::vector<RunOptions> Modes() {
  return {{.oracle = true},
          {.oracle = true, .reverse_blocks = true},
          {.oracle = true, .poison_outputs = true},
          {.threads = 1},
          {.threads = 2},
          {.threads = 8}};
}

std::unique_ptr<CaseRun> MakeCase(const Example& example, Worker& worker) {
  const Program& program = example.program();
  Params params(program.params);
  for (const auto& [name, value] : example.settings) params.Set(name, value);
  for (const Case& c : program.cases) {
    if (c.name == example.case_name) return c.make({worker, params, true, {}});
  }
  throw std::out_of_range(example.case_name);
}

/// The bytes of the arguments that a run writes.
std::vector<std::byte> Written(Worker& worker, const std::vector<Arg>& args) {
  std::vector<std::byte> bytes;
  for (const Arg& arg : args) {
    if (arg.is_scalar() || arg.direction() == Direction::in) continue;
    std::vector<std::byte> copy(arg.tensor().extent_bytes());
    if (arg.tensor().kind() == Tensor::Kind::device) {
      worker.copy_from(copy.data(), arg.tensor(), copy.size());
    } else {
      std::memcpy(copy.data(), detail::TensorAccess::HostData(arg.tensor()), copy.size());
    }
    bytes.insert(bytes.end(), copy.begin(), copy.end());
  }
  return bytes;
}

class ExampleTest : public testing::TestWithParam<std::tuple<size_t, std::string>> {};

TEST_P(ExampleTest, PassesItsCheckInEveryMode) {
  const Example example = Examples()[std::get<0>(GetParam())];
  Worker worker({.platform = std::get<1>(GetParam())});
  const Program& program = worker.load(example.program());
  std::vector<std::byte> expected;
  for (const RunOptions& options : Modes()) {
    SCOPED_TRACE(options.oracle ? "oracle" : std::to_string(options.threads.value()) + " threads");
    Bytes in_use = worker.properties().memory_in_use;
    {
      auto run = MakeCase(example, worker);
      std::vector<Arg> args;
      for (int round = 0; run->WantsRound(round, 0); ++round) {
        args = run->Args(round);
        run->After(round, worker.run(program, args, options));
      }
      GoldenResult golden = run->Check();
      EXPECT_TRUE(golden.pass) << golden.detail;
      std::vector<std::byte> written = Written(worker, args);
      EXPECT_FALSE(written.empty());
      if (expected.empty()) expected = written;
      EXPECT_TRUE(written == expected) << "other bytes than the oracle's";
    }
    if (options.threads == 8) {
      EXPECT_EQ(worker.properties().memory_in_use, in_use) << "the case frees what it took";
    }
  }
}

std::string NameOf(const testing::TestParamInfo<ExampleTest::ParamType>& test) {
  const Example example = Examples()[std::get<0>(test.param)];
  std::string name = example.program().name + "_" + example.case_name;
  for (const auto& [key, value] : example.settings) name += "_" + key + "_" + value;
  name += "_" + std::get<1>(test.param);
  for (char& c : name) {
    if (c == ':' || c == '=') c = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, ExampleTest,
                         testing::Combine(testing::Range(size_t{0}, Examples().size()),
                                          testing::Values("cpu", "a2a3sim", "a2a3sim:host_page=64k",
                                                          "a5sim")),
                         NameOf);

// A check that passes whatever the run did would be worthless.
TEST(ExampleCheck, FailsWhenNothingRan) {
  Worker worker;
  for (const Example& example : Examples()) {
    bool decodes = example.program == precast_program_qwen3_14b_decode;
    if (!example.settings.empty() && !decodes) continue;
    auto run = MakeCase(example, worker);
    worker.run(example.program(), run->Args(0), {.skip_device_run = true});
    GoldenResult golden = run->Check();
    EXPECT_FALSE(golden.pass) << example.program().name << " " << example.case_name;
    EXPECT_FALSE(golden.detail.empty());
    EXPECT_GT(golden.max_abs_err, 0);
  }
}

TEST(ExampleGraphs, HaveTheTasksThatTheirSizesImply) {
  Worker worker;
  auto tasks = [&](const Example& example) {
    auto run = MakeCase(example, worker);
    return worker.run(example.program(), run->Args(0), {.skip_device_run = true}).graph.tasks;
  };
  EXPECT_EQ(tasks({precast_program_vector_add, "default"}), 2u);
  EXPECT_EQ(tasks({precast_program_bgemm, "default"}), 4u * 4 * 4 * 4);
  EXPECT_EQ(tasks({precast_program_bgemm, "small"}), 3u * 4 * 3 * 3);
  EXPECT_EQ(tasks({precast_program_paged_attention, "small1"}), 4u + 1);
  EXPECT_EQ(tasks({precast_program_paged_attention, "small2"}), 4u * 4 + 1);
  // Blocks of 16: 3, 0, 4, 1, 16, 7, 1 and 9, for two KV heads; one task for the empty sequence.
  EXPECT_EQ(tasks({precast_program_paged_attention, "ragged"}), 2u * (4 * 41 + 7) + 1);
}

/// The host memory of an argument, to spoil it.
template <typename T>
T* DataOf(const Arg& arg) {
  return reinterpret_cast<T*>(detail::TensorAccess::HostData(arg.tensor()));
}

TEST(ExampleData, IsCheckedByTheOrchestrations) {
  Worker worker;
  const Program& program = precast_program_paged_attention();
  auto expect_fatal = [&](const std::vector<Arg>& args, const std::string& message) {
    try {
      worker.run(program, args);
      ADD_FAILURE() << "no error: " << message;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::fatal);
      EXPECT_NE(error.message().find(message), std::string::npos) << error.message();
    }
  };
  auto run = MakeCase({precast_program_paged_attention, "small2"}, worker);
  std::vector<Arg> args = run->Args(0);
  int32_t& block = DataOf<int32_t>(args[3])[1];
  int32_t& context = DataOf<int32_t>(args[4])[0];
  block = 7;
  expect_fatal(args, "block_table[0] names block 7; allowed: 0 to 6");
  block = -1;
  expect_fatal(args, "block_table[0] names block -1; allowed: 0 to 6");
  context = 257;
  expect_fatal(args, "context_lens[0] is 257; allowed: 0 to 256");
  std::vector<float> a(6), b(6), c(4);
  EXPECT_THROW(
      worker.run(precast_program_bgemm(),
                 {in(Tensor::host(a.data(), {1, 2, 3})), in(Tensor::host(b.data(), {1, 2, 3})),
                  out(Tensor::host(c.data(), {1, 2, 2})), int64_t{2}}),
      Error);
}

TEST(ExampleParameters, AreChecked) {
  Worker worker;
  EXPECT_THROW(MakeCase({precast_program_paged_attention, "small1", {{"reads", "twice"}}}, worker),
               Error);
  EXPECT_THROW(MakeCase({precast_program_bgemm, "small", {{"tile", "-1"}}}, worker), Error);
}

}  // namespace
}  // namespace precast::examples
