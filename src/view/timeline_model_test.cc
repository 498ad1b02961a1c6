#include "view/timeline_model.h"

#include <precast/error.h>

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <tuple>

namespace precast::view {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Part = ModelGraph::Part;
using Why = PathStep::Why;

// Rates in which numbers are easy to read: an operation takes a nanosecond, a byte takes one on a
// core that moves alone, and four cores that move at the same time do so at that speed.
Chip SimpleChip(uint32_t cubes, uint32_t vectors, Picoseconds dispatch = 0) {
  return {cubes,
          vectors,
          {.bandwidth = 4'000'000'000,
           .core_bandwidth = 1'000'000'000,
           .cube_operations = 1'000'000'000,
           .vector_operations = 1'000'000'000,
           .dispatch_ps = dispatch}};
}
constexpr Picoseconds kNs = 1000;

Part Computes(Core core, uint64_t ns) { return {core, 0, ns}; }
Part Moves(Core core, uint64_t bytes) { return {core, bytes, 0}; }

uint32_t Add(ModelGraph* graph, std::vector<Part> parts, uint32_t blocks = 1,
             std::vector<uint32_t> producers = {}) {
  uint32_t task = graph->AddTask(blocks, parts);
  for (uint32_t producer : producers) graph->AddEdge(producer, task);
  return task;
}
uint32_t AddVector(ModelGraph* graph, uint64_t ns, std::vector<uint32_t> producers = {}) {
  return Add(graph, {Computes(Core::vector, ns)}, 1, std::move(producers));
}
uint32_t AddCube(ModelGraph* graph, uint64_t ns, std::vector<uint32_t> producers = {}) {
  return Add(graph, {Computes(Core::cube, ns)}, 1, std::move(producers));
}

/// What must hold of every timeline.
void ExpectSound(const ModelGraph& graph, const Chip& chip, const Timeline& timeline) {
  // Cores run one thing at a time, and are busy for as long as they are held.
  std::map<uint32_t, std::vector<std::pair<Picoseconds, Picoseconds>>> lanes;
  std::vector<std::set<std::pair<uint32_t, uint32_t>>> seen(graph.tasks());
  Picoseconds busy[2] = {};
  for (const CoreRun& run : timeline.runs) {
    ASSERT_LT(run.core, chip.cube_cores + chip.vector_cores);
    EXPECT_LE(timeline.ready[run.task], run.start);
    EXPECT_LE(run.end, timeline.end[run.task]);
    EXPECT_TRUE(seen[run.task].emplace(run.block, run.core).second);
    lanes[run.core].emplace_back(run.start, run.end);
    busy[run.core < chip.cube_cores ? 0 : 1] += run.end - run.start;
  }
  EXPECT_EQ(busy[0], timeline.busy[0]);
  EXPECT_EQ(busy[1], timeline.busy[1]);
  EXPECT_LE(busy[0], timeline.span * chip.cube_cores);
  EXPECT_LE(busy[1], timeline.span * chip.vector_cores);
  for (auto& [core, held] : lanes) {
    std::sort(held.begin(), held.end());
    for (size_t i = 1; i < held.size(); ++i) EXPECT_LE(held[i - 1].second, held[i].first);
  }
  for (uint32_t task = 0; task < graph.tasks(); ++task) {
    EXPECT_EQ(seen[task].size(), graph.blocks(task) * graph.parts(task).size());
    EXPECT_LE(timeline.end[task], timeline.span);
  }
  std::set<std::pair<uint32_t, uint32_t>> edges;
  for (const ModelGraph::Edge& edge : graph.edges()) {
    EXPECT_LE(timeline.end[edge.from], timeline.ready[edge.to]);
    edges.emplace(edge.from, edge.to);
  }
  // The critical path is without gaps, and each of its edges is one of the graph.
  Picoseconds at = 0, sum = 0;
  for (size_t i = 0; i < timeline.path.size(); ++i) {
    const PathStep& step = timeline.path[i];
    EXPECT_EQ(step.start, at);
    at = step.end;
    sum += step.end - step.start;
    EXPECT_EQ(step.why == Why::start, i == 0);
    if (step.why == Why::edge) {
      EXPECT_TRUE(edges.contains({timeline.path[i - 1].task, step.task}));
    } else if (step.why == Why::core) {
      EXPECT_LT(timeline.ready[step.task], step.start);
    }
  }
  EXPECT_EQ(sum, timeline.span);
  Bounds bounds = BoundsOf(graph, chip);
  for (Picoseconds bound : {bounds.bandwidth, bounds.arithmetic[0], bounds.arithmetic[1],
                            bounds.cores[0], bounds.cores[1], bounds.chain}) {
    EXPECT_LE(bound, timeline.span);
  }
}

Timeline Model(const ModelGraph& graph, const Chip& chip) {
  Timeline timeline = Simulate(graph, chip);
  ExpectSound(graph, chip, timeline);
  return timeline;
}

auto Steps(const Timeline& timeline) {
  std::vector<std::pair<uint32_t, Why>> steps;
  for (const PathStep& step : timeline.path) steps.emplace_back(step.task, step.why);
  return steps;
}

TEST(TimelineModelTest, AnEmptyGraphTakesNoTime) {
  Timeline timeline = Model(ModelGraph(), SimpleChip(1, 1));
  EXPECT_EQ(timeline.span, 0);
  EXPECT_TRUE(timeline.path.empty());
}

TEST(TimelineModelTest, IndependentTasksShareTheCores) {
  for (uint32_t cores : {1, 2, 3, 7, 10, 16}) {
    ModelGraph graph;
    for (int i = 0; i < 10; ++i) AddVector(&graph, 100);
    Timeline timeline = Model(graph, SimpleChip(1, cores));
    EXPECT_EQ(timeline.span, (10 + cores - 1) / cores * 100 * kNs);
    EXPECT_EQ(timeline.busy[1], 1000 * kNs);
    EXPECT_EQ(timeline.busy[0], 0);
  }
}

TEST(TimelineModelTest, BlocksOfOneTaskShareTheCores) {
  ModelGraph graph;
  Add(&graph, {Computes(Core::cube, 100)}, 10);
  EXPECT_EQ(Model(graph, SimpleChip(4, 1)).span, 300 * kNs);
  EXPECT_EQ(BoundsOf(graph, SimpleChip(4, 1)).cores[0], 250 * kNs);
  EXPECT_EQ(BoundsOf(graph, SimpleChip(4, 1)).arithmetic[0], 250 * kNs);
  EXPECT_EQ(BoundsOf(graph, SimpleChip(4, 1)).chain, 100 * kNs);
}

TEST(TimelineModelTest, AChainTakesTheSumWhateverTheCores) {
  ModelGraph graph;
  uint32_t last = AddVector(&graph, 10);
  for (uint64_t i = 2; i <= 5; ++i) last = AddVector(&graph, 10 * i, {last});
  Timeline timeline = Model(graph, SimpleChip(8, 8));
  EXPECT_EQ(timeline.span, 150 * kNs);
  EXPECT_EQ(BoundsOf(graph, SimpleChip(8, 8)).chain, timeline.span);
  EXPECT_THAT(Steps(timeline), ElementsAre(std::pair(0, Why::start), std::pair(1, Why::edge),
                                           std::pair(2, Why::edge), std::pair(3, Why::edge),
                                           std::pair(4, Why::edge)));
}

TEST(TimelineModelTest, ForkJoin) {
  ModelGraph graph;
  uint32_t fork = AddVector(&graph, 10);
  std::vector<uint32_t> branches;
  for (int i = 0; i < 6; ++i) branches.push_back(AddVector(&graph, 100, {fork}));
  uint32_t join = AddVector(&graph, 20, branches);
  Timeline timeline = Model(graph, SimpleChip(1, 4));
  EXPECT_EQ(timeline.span, (10 + 2 * 100 + 20) * kNs);
  EXPECT_EQ(Model(graph, SimpleChip(1, 8)).span, 130 * kNs);
  // The second wave waited for a core; the join for the last of its producers.
  EXPECT_THAT(Steps(timeline),
              ElementsAre(std::pair(fork, Why::start), std::pair(branches[1], Why::edge),
                          std::pair(branches[5], Why::core), std::pair(join, Why::edge)));
}

TEST(TimelineModelTest, ATaskWithoutKernelOnlyOrders) {
  ModelGraph graph;
  uint32_t a = AddVector(&graph, 10), b = AddVector(&graph, 30);
  uint32_t barrier = Add(&graph, {}, 1, {a, b});
  uint32_t second = Add(&graph, {}, 1, {barrier});
  uint32_t c = AddVector(&graph, 5, {second});
  Timeline timeline = Model(graph, SimpleChip(1, 2));
  EXPECT_EQ(timeline.span, 35 * kNs);
  EXPECT_EQ(timeline.end[second], 30 * kNs);
  EXPECT_THAT(Steps(timeline), ElementsAre(std::pair(b, Why::start), std::pair(barrier, Why::edge),
                                           std::pair(second, Why::edge), std::pair(c, Why::edge)));
}

TEST(TimelineModelTest, APipelineOfBothKinds) {
  // Cube and vector alternate; with one core of each, stage i of item j runs beside stage i + 1 of
  // item j - 1.
  ModelGraph graph;
  for (int item = 0; item < 10; ++item) AddVector(&graph, 40, {AddCube(&graph, 50)});
  Chip chip = SimpleChip(1, 1);
  Timeline timeline = Model(graph, chip);
  EXPECT_EQ(timeline.span, (10 * 50 + 40) * kNs);
  EXPECT_EQ(timeline.busy[0], 500 * kNs);
  EXPECT_EQ(timeline.busy[1], 400 * kNs);
  EXPECT_EQ(BoundsOf(graph, chip).cores[0], 500 * kNs);
  EXPECT_EQ(BoundsOf(graph, chip).arithmetic[1], 400 * kNs);
  EXPECT_EQ(Model(graph, SimpleChip(2, 2)).span, (5 * 50 + 40) * kNs);
}

TEST(TimelineModelTest, MixedTasksHoldAllOfTheirCores) {
  ModelGraph graph;
  for (int i = 0; i < 4; ++i) {
    Add(&graph,
        {Computes(Core::cube, 100), Computes(Core::vector, 10), Computes(Core::vector, 30)});
  }
  // Two at a time by the vector cores, although there are cube cores for four.
  Timeline timeline = Model(graph, SimpleChip(4, 4));
  EXPECT_EQ(timeline.span, 200 * kNs);
  EXPECT_EQ(timeline.busy[0], 400 * kNs);
  EXPECT_EQ(timeline.busy[1], 800 * kNs);
  EXPECT_EQ(BoundsOf(graph, SimpleChip(4, 4)).cores[1], 200 * kNs);
  EXPECT_EQ(BoundsOf(graph, SimpleChip(4, 4)).cores[0], 100 * kNs);
  EXPECT_EQ(Model(graph, SimpleChip(4, 8)).span, 100 * kNs);
  EXPECT_EQ(Model(graph, SimpleChip(1, 8)).span, 400 * kNs);
}

TEST(TimelineModelTest, NobodyOvertakesAMixedTaskThatWaits) {
  ModelGraph graph;
  uint32_t cube = AddCube(&graph, 100);
  uint32_t mixed = Add(&graph, {Computes(Core::cube, 10), Computes(Core::vector, 10)});
  uint32_t vector = AddVector(&graph, 10);
  Timeline timeline = Model(graph, SimpleChip(1, 2));
  auto run_of = [&](uint32_t task) {
    return *std::find_if(timeline.runs.begin(), timeline.runs.end(),
                         [&](const CoreRun& run) { return run.task == task; });
  };
  EXPECT_EQ(run_of(mixed).start, 100 * kNs);
  EXPECT_EQ(run_of(vector).start, 100 * kNs);  // its core was free all the time
  EXPECT_EQ(timeline.span, 110 * kNs);
  // What it waited for is what the mixed one did.
  EXPECT_EQ(timeline.runs[run_of(vector).waited_for].task, cube);
}

TEST(TimelineModelTest, OvertakingAcrossKindsIsFine) {
  ModelGraph graph;
  AddCube(&graph, 100);
  AddCube(&graph, 100);
  AddVector(&graph, 150);
  EXPECT_EQ(Model(graph, SimpleChip(1, 1)).span, 200 * kNs);
}

TEST(TimelineModelTest, DispatchAloneLimitsEmptyBlocks) {
  ModelGraph graph;
  Add(&graph, {Part{Core::vector, 0, 0}}, 1000);
  Chip chip = SimpleChip(1, 10, 500);
  EXPECT_EQ(Model(graph, chip).span, 100 * 500);
  EXPECT_EQ(BoundsOf(graph, chip).cores[1], 100 * 500);
  EXPECT_EQ(BoundsOf(graph, chip).arithmetic[1], 0);
  chip.rates.dispatch_ps = 0;
  EXPECT_EQ(Model(graph, chip).span, 0);
}

TEST(TimelineModelTest, ABlockTakesTheLongerOfBytesAndOperations) {
  ModelGraph bytes, operations;
  Add(&bytes, {Part{Core::vector, 70, 30}});
  Add(&operations, {Part{Core::vector, 30, 70}});
  EXPECT_EQ(Model(bytes, SimpleChip(1, 1, 5 * kNs)).span, 75 * kNs);
  EXPECT_EQ(Model(operations, SimpleChip(1, 1, 5 * kNs)).span, 75 * kNs);
}

TEST(TimelineModelTest, CoresShareTheBandwidth) {
  // Eight cores want a byte a nanosecond each; the chip has four for all of them.
  ModelGraph graph;
  Add(&graph, {Moves(Core::vector, 100)}, 8);
  EXPECT_EQ(Model(graph, SimpleChip(1, 8)).span, 200 * kNs);
  EXPECT_EQ(Model(graph, SimpleChip(1, 4)).span, 200 * kNs);
  EXPECT_EQ(Model(graph, SimpleChip(1, 2)).span, 400 * kNs);
  EXPECT_EQ(BoundsOf(graph, SimpleChip(1, 8)).bandwidth, 200 * kNs);
}

TEST(TimelineModelTest, ACoreGetsMoreOnceOthersHaveTheirBytes) {
  ModelGraph graph;
  for (int i = 0; i < 4; ++i) Add(&graph, {Moves(Core::vector, 100)});
  for (int i = 0; i < 4; ++i) Add(&graph, {Moves(Core::vector, 200)});
  // Half a byte a nanosecond until the first four are done after 200, then a whole one.
  Timeline timeline = Model(graph, SimpleChip(1, 8));
  EXPECT_EQ(timeline.end[0], 200 * kNs);
  EXPECT_EQ(timeline.end[7], 300 * kNs);
}

TEST(TimelineModelTest, ALateComerSlowsTheOthersDown) {
  Chip chip = SimpleChip(1, 2);
  chip.rates.bandwidth = 1'000'000'000;  // what one core moves
  ModelGraph graph;
  Add(&graph, {Moves(Core::vector, 100)});
  uint32_t before = AddCube(&graph, 40);
  Add(&graph, {Moves(Core::vector, 10)}, 1, {before});
  // Alone for 40, then both at half the speed until the second has its 10 bytes at 60.
  Timeline timeline = Model(graph, chip);
  EXPECT_EQ(timeline.end[2], 60 * kNs);
  EXPECT_EQ(timeline.end[0], 110 * kNs);
}

TEST(TimelineModelTest, TiesGoByProgramOrder) {
  ModelGraph graph;
  uint32_t a = AddVector(&graph, 10), b = AddVector(&graph, 10);
  uint32_t late = AddVector(&graph, 10, {a}), early = AddVector(&graph, 10, {b});
  Timeline timeline = Model(graph, SimpleChip(1, 2));
  EXPECT_EQ(timeline.ready[late], timeline.ready[early]);
  ASSERT_EQ(timeline.runs.size(), 4);
  EXPECT_EQ(timeline.runs[2].task, late);
  EXPECT_EQ(timeline.runs[2].core, 1);  // the vector core with the lowest number, after the cube
  EXPECT_EQ(timeline.runs[3].task, early);
}

TEST(TimelineModelTest, TwiceTheCoresHalveWhatOnlyCoresBound) {
  ModelGraph graph;
  Add(&graph, {Computes(Core::cube, 100)}, 64);
  EXPECT_EQ(Model(graph, SimpleChip(8, 1)).span, 2 * Model(graph, SimpleChip(16, 1)).span);
}

ModelGraph RandomGraph(uint32_t seed) {
  std::mt19937 random(seed);
  auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  ModelGraph graph;
  for (uint32_t task = 0; task < 200; ++task) {
    auto part = [&](Core core) {
      uint32_t scale = below(3), bytes = scale * below(500);
      return Part{core, bytes, below(700)};
    };
    std::vector<Part> parts;
    switch (below(6)) {
      case 0:
        break;
      case 1:
        parts = {part(Core::cube), part(Core::vector)};
        break;
      case 2:
        parts = {part(Core::cube), part(Core::vector), part(Core::vector)};
        break;
      default:
        parts = {part(below(2) == 0 ? Core::cube : Core::vector)};
    }
    std::set<uint32_t> producers;
    for (uint32_t i = below(4); i > 0 && task > 0; --i) producers.insert(below(task));
    Add(&graph, parts, 1 + below(5), {producers.begin(), producers.end()});
  }
  return graph;
}

TEST(TimelineModelTest, RandomGraphsGiveSoundTimelinesTheSameEachTime) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    ModelGraph graph = RandomGraph(seed);
    Chip chip = SimpleChip(1 + seed % 5, 2 + seed % 7, seed % 3 * 777);
    chip.rates.bandwidth = 2'345'678'901;
    Timeline one = Model(graph, chip), two = Simulate(graph, chip);
    EXPECT_EQ(one.span, two.span);
    EXPECT_EQ(one.end, two.end);
    ASSERT_EQ(one.runs.size(), two.runs.size());
    for (size_t i = 0; i < one.runs.size(); ++i) {
      EXPECT_EQ(one.runs[i].core, two.runs[i].core);
      EXPECT_EQ(one.runs[i].start, two.runs[i].start);
    }
  }
}

// The same to the last digit on every machine and with every compiler.
TEST(TimelineModelTest, ItsNumbersAreKnown) {
  Chip chip = SimpleChip(3, 5, 777);
  chip.rates.bandwidth = 2'345'678'901;
  Timeline timeline = Simulate(RandomGraph(1), chip);
  EXPECT_EQ(timeline.span, 98'935'766);
  EXPECT_EQ(timeline.busy[0], 248'969'707);
  EXPECT_EQ(timeline.busy[1], 354'793'291);
}

template <typename Call>
std::string MessageOf(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.message();
  }
  return "no error";
}

TEST(TimelineModelTest, RefusesWhatItCannotModel) {
  ModelGraph mixed;
  Add(&mixed, {Computes(Core::cube, 1), Computes(Core::vector, 1), Computes(Core::vector, 1)});
  EXPECT_THAT(MessageOf([&] { Simulate(mixed, SimpleChip(1, 1)); }),
              HasSubstr("needs 1 cube and 2 vector cores; the chip has 1 and 1"));
  EXPECT_THAT(MessageOf([&] { Simulate(mixed, Chip{1, 2, {}}); }), HasSubstr("no rates"));
  ModelGraph endless;
  for (int i = 0; i < 3; ++i) Add(&endless, {Moves(Core::vector, UINT64_MAX)});
  EXPECT_THAT(MessageOf([&] { Simulate(endless, SimpleChip(1, 1)); }),
              HasSubstr("more than 53 days"));
}

}  // namespace
}  // namespace precast::view
