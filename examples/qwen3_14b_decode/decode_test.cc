// The graph of a decoding step, and the memory that its scales take. That it computes what it
// should is among the tests of all examples.
#include "qwen3_14b_decode/model.h"

#include <precast/precast.h>

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

const precast::Program& precast_program_qwen3_14b_decode();

namespace precast::qwen3_14b {
namespace {

using Settings = std::vector<std::pair<std::string, std::string>>;

std::unique_ptr<CaseRun> Make(Worker& worker, const Settings& settings, bool execute) {
  const Program& program = precast_program_qwen3_14b_decode();
  Params params(program.params);
  for (const auto& [name, value] : settings) params.Set(name, value);
  return program.cases[0].make(
      {.worker = worker, .params = params, .golden = false, .execute = execute});
}

class DecodeTest : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, DecodeTest, testing::Values("cpu", "a2a3sim", "a5sim"));

TEST_P(DecodeTest, BothScalesHaveTheSameTasks) {
  Worker worker({.platform = GetParam()});
  for (const char* scale : {"full", "small"}) {
    auto run = Make(worker, {{"scale", scale}}, false);
    for (int round = 0; round < 3; ++round) {
      RunReport report = worker.run(precast_program_qwen3_14b_decode(), run->Args(round),
                                    {.skip_device_run = true});
      EXPECT_EQ(report.graph.tasks, 47u);
      EXPECT_EQ(report.graph.replays, 40u);
      EXPECT_EQ(report.graph.blocks, 19208u);
      EXPECT_EQ(report.graph.definitions_recorded, round == 0 ? 1u : 0u);
      EXPECT_EQ(report.graph.variants, scale == std::string("full") ? 1u : 2u);
    }
  }
}

// What a step records is an orchestration like any other.
TEST_P(DecodeTest, ALayerHas277Tasks) {
  Worker worker({.platform = GetParam()});
  Sizes s = SmallSizes();
  std::vector<Tensor> tensors;
  auto add = [&](const Shape& shape, DType dtype) {
    tensors.push_back(worker.malloc(shape, dtype));
  };
  for (size_t which = 0; which < argument::per_layer; ++which) {
    auto [shape, dtype] = LayerForm(s, which);
    add(shape, dtype);
  }
  add({s.batch(), s.hidden}, DType::f32);
  add({s.batch(), s.columns}, DType::i32);
  for (int i = 0; i < 2; ++i) add({s.batch()}, DType::i32);
  for (int i = 0; i < 2; ++i) add({s.batch(), s.dim / 2}, DType::f32);
  ASSERT_EQ(tensors.size(), 26u);
  std::vector<Arg> args;
  for (const Tensor& tensor : tensors) args.push_back(inout(tensor));
  args.push_back(kEps);
  auto layer = [](Orchestrator& o, const Args& a) { SubmitLayer(o, a, true); };
  RunReport report = worker.run(layer, args);
  EXPECT_EQ(report.graph.tasks, 277u);
  EXPECT_EQ(report.graph.blocks, 477u);
}

TEST_P(DecodeTest, TheFullScaleTakesNoMemory) {
  Worker worker({.platform = GetParam()});
  auto before = worker.properties();
  {
    auto run = Make(worker, {{"scale", "full"}, {"kernels", "empty"}}, true);
    EXPECT_GT(worker.properties().memory_in_use, before.memory_in_use + (Bytes{6} << 30));
    worker.run(precast_program_qwen3_14b_decode(), run->Args(0));
    EXPECT_TRUE(run->Check().skipped);
  }
  constexpr Bytes kOfRuns = Bytes{16} << 20;
  EXPECT_LT(worker.properties().memory_committed, before.memory_committed + kOfRuns);
  EXPECT_LT(worker.properties().memory_in_use, before.memory_in_use + kOfRuns);
}

TEST(DecodeParameters, AreChecked) {
  Worker worker;
  auto code = [&](const Settings& settings) {
    try {
      Make(worker, settings, true);
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::internal;
  };
  EXPECT_EQ(code({{"scale", "large"}}), ErrorCode::usage);
  EXPECT_EQ(code({{"scale", "small"}, {"kernels", "none"}}), ErrorCode::usage);
  EXPECT_EQ(code({{"scale", "full"}}), ErrorCode::usage) << "executing it makes no sense";
}

TEST(DecodeArguments, AreCheckedByTheOrchestration) {
  Worker worker;
  auto run = Make(worker, {{"scale", "small"}}, true);
  std::vector<Arg> args = run->Args(0);
  Tensor table = args[argument::block_table].tensor();
  args[argument::block_table] = in(table.slice(1, 0, 7));
  try {
    worker.run(precast_program_qwen3_14b_decode(), args);
    ADD_FAILURE() << "nothing thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::fatal);
    EXPECT_NE(error.message().find("multiple of 4"), std::string::npos) << error.message();
  }
}

// The order of a layer's tensors is written down twice, as shapes and as a signature.
TEST(DecodeSignature, FitsTheShapes) {
  std::vector<ArgSpec> signature = DecodeSignature();
  ASSERT_EQ(signature.size(), LayerTensor(kLayers, 0) + 2);
  for (size_t which = 0; which < argument::per_layer; ++which) {
    const ArgSpec& spec = signature[LayerTensor(kLayers - 1, which)];
    auto [shape, dtype] = LayerForm(SmallSizes(), which);
    EXPECT_EQ(spec.dtype, dtype) << spec.name;
    EXPECT_EQ(spec.rank, shape.rank()) << spec.name;
  }
  EXPECT_EQ(signature[LayerTensor(39, argument::down_scale)].name, "layers.39.down_scale");
  EXPECT_EQ(signature[LayerTensor(7, argument::values)].direction, Direction::inout);
}

}  // namespace
}  // namespace precast::qwen3_14b
