// Every scene, on every platform, in every mode: the same bytes as the oracle, and as a plain loop.
#include "scenes/scenes.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>

namespace precast::scenes {
namespace {

class SceneTest : public testing::TestWithParam<std::tuple<size_t, std::string>> {
 protected:
  const Scene& scene() const { return AllScenes()[std::get<0>(GetParam())]; }
  const std::string& platform() const { return std::get<1>(GetParam()); }
};

/// The first byte that differs, for the message of a failed test.
std::string Difference(Memory found, Memory expected) {
  for (size_t i = 0; i < found.size(); ++i) {
    for (size_t n = 0; n < found.bytes(i).size(); ++n) {
      if (found.bytes(i)[n] == expected.bytes(i)[n]) continue;
      return "buffer " + std::to_string(i) + ", byte " + std::to_string(n) + " is " +
             std::to_string(std::to_integer<int>(found.bytes(i)[n])) + ", expected " +
             std::to_string(std::to_integer<int>(expected.bytes(i)[n]));
    }
  }
  return "no difference";
}

TEST_P(SceneTest, SameBytesInEveryMode) {
  Worker worker({.platform = platform()});
  Memory expected(scene().buffers);
  if (scene().expect) {
    scene().expect(expected);
  } else {
    expected = RunScene(worker, scene(), AllModes().front().options).memory;
  }
  RunScene(worker, scene());  // what a worker keeps between runs is then there
  Bytes in_use = worker.properties().memory_in_use;
  for (const Mode& mode : AllModes()) {
    SCOPED_TRACE(mode.name);
    SceneResult result = RunScene(worker, scene(), mode.options);
    EXPECT_TRUE(result.memory == expected) << Difference(result.memory, expected);
    EXPECT_TRUE(result.guards_intact);
    const RunReport& report = result.report;
    EXPECT_EQ(report.graph.tasks, scene().tasks.value_or(report.graph.tasks));
    EXPECT_EQ(report.graph.edges, scene().edges.value_or(report.graph.edges));
    EXPECT_LE(report.heap.peak_bytes, scene().options.heap.value_or(report.heap.peak_bytes));
  }
  EXPECT_EQ(worker.properties().memory_in_use, in_use);
}

std::string TestNameOf(const testing::TestParamInfo<SceneTest::ParamType>& test) {
  return AllScenes()[std::get<0>(test.param)].name + "_" + TestName(std::get<1>(test.param));
}

INSTANTIATE_TEST_SUITE_P(All, SceneTest,
                         testing::Combine(testing::Range(size_t{0}, AllScenes().size()),
                                          testing::ValuesIn(TestedPlatforms())),
                         TestNameOf);

// The bytes were reused, which is what these scenes are for; that they are right is tested above.
TEST(HeapScenes, ReuseBytesAndReportIt) {
  Worker worker;
  for (const Scene& scene : MemoryScenes()) {
    if (!scene.options.heap) continue;
    SCOPED_TRACE(scene.name);
    RunReport report = RunScene(worker, scene).report;
    EXPECT_GT(report.heap.reused_bytes, *scene.options.heap);
    EXPECT_GT(report.heap.peak_bytes, 0u);
    if (scene.name == "heap_chain") {
      EXPECT_EQ(report.heap.added_edges, 0u);
    }
    if (scene.name == "heap_past_budget") {
      EXPECT_GT(report.heap.added_edges, 0u);
    }
  }
}

}  // namespace
}  // namespace precast::scenes
