// What the generator draws: the same from the same seed, and something of everything.
#include "fuzz/generator.h"

#include "fuzz/fuzzer.h"
#include "fuzz/model.h"
#include "scenes/scenes.h"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <set>
#include <string>

namespace precast::fuzz {
namespace {

TEST(Generator, ASeedIsTheSameProgramEverywhere) {
  std::string text;
  for (uint64_t seed = 1; seed <= 50; ++seed) text += ToString(Generate(seed));
  // Changes whenever the generator does; a seed that failed before then means another program.
  EXPECT_EQ(XXH3_64bits(text.data(), text.size()), 12568591064343656476u);
}

TEST(Generator, KeepsTheRules) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Plan plan = Generate(seed);
    const char* problem = CheckPlan(plan);
    EXPECT_EQ(problem, nullptr) << problem << "\n" << ToString(plan);
    EXPECT_GE(CountTasks(plan), 1u);
    EXPECT_LE(CountTasks(plan), 2000u);
  }
}

/// Everything that a plan may have, by name.
void Collect(const Plan& plan, std::set<std::string>* found) {
  auto note = [&](std::string name, bool there = true) {
    if (there) found->insert(std::move(name));
  };
  const Settings usual;
  note("small heap", plan.settings.heap < usual.heap);
  note("no room for views", plan.settings.host_view_budget < usual.host_view_budget);
  note("no room for definitions", plan.settings.definition_budget < usual.definition_budget);
  note("few definitions", plan.settings.max_definitions < usual.max_definitions);
  note("views rebuilt", plan.settings.host_views == HostViewPolicy::rebuild);
  note("views refused", plan.settings.host_views == HostViewPolicy::copy);
  note("uploads", plan.settings.upload == UploadMode::per_submission);
  note("verified", plan.settings.verify_replays);
  note("timeout", plan.settings.kernel_timeout);
  note("1,000 tasks", CountTasks(plan) >= 1000);
  for (const Buffer& buffer : plan.buffers) note(buffer.device ? "device" : "host");
  std::vector<bool> nests;
  for (const Body& body : plan.bodies) {
    bool nested = false;
    for (const Item& item : body.items) {
      bool graph = item.kind == Item::Kind::graph;
      nested = nested || graph;
      note("item " + std::to_string(static_cast<int>(item.kind)));
      note("filled", item.fill.has_value());
      note("condition", item.condition.has_value());
      note(graph ? "graph after" : "after", !item.after.empty());
      note(graph ? "graph when" : "when", item.when.has_value());
      note("param", item.param != 0);
      note("nested", graph && nests[item.body]);
      if (item.kind == Item::Kind::task) {
        note("form " + std::to_string(static_cast<int>(item.form)));
        note("blocks", item.blocks > 1);
        note("many tensors", item.uses.size() > 16);
        note("pause", item.pause_us > 0);
      }
      for (const Use& use : item.uses) {
        note(std::string(Name(use.direction)));
        note("no_dep stored", use.stores);
        for (const ViewStep& step : use.tensor.steps) {
          note("view " + std::to_string(static_cast<int>(step.kind)));
        }
      }
      for (const ScalarRef& scalar : item.scalars) {
        note("scalar " + std::to_string(static_cast<int>(scalar.source)));
      }
    }
    nests.push_back(nested);
  }
  for (const Step& step : plan.steps) {
    note("step " + std::to_string(static_cast<int>(step.kind)));
    note("in flight", step.in_flight);
    note("replayable", step.replayable);
  }
}

TEST(Generator, DrawsSomethingOfEverything) {
  std::set<std::string> found;
  for (uint64_t seed = 1; seed <= 300; ++seed) Collect(Generate(seed), &found);
  std::set<std::string> wanted = {"small heap",
                                  "no room for views",
                                  "no room for definitions",
                                  "few definitions",
                                  "views rebuilt",
                                  "views refused",
                                  "uploads",
                                  "verified",
                                  "timeout",
                                  "1,000 tasks",
                                  "device",
                                  "host",
                                  "filled",
                                  "condition",
                                  "after",
                                  "graph after",
                                  "when",
                                  "graph when",
                                  "param",
                                  "nested",
                                  "blocks",
                                  "many tensors",
                                  "pause",
                                  "in",
                                  "out",
                                  "inout",
                                  "no_dep",
                                  "no_dep stored",
                                  "in flight",
                                  "replayable"};
  for (const auto& [name, count] :
       {std::pair("item ", 7), std::pair("form ", 5), std::pair("view ", 5),
        std::pair("scalar ", 3), std::pair("step ", 6)}) {
    for (int i = 0; i < count; ++i) wanted.insert(name + std::to_string(i));
  }
  EXPECT_EQ(found, wanted);
}

// That a plan asks for something does not mean that it happens.
TEST(Generator, ItsPlansReachWhatTheyAreFor) {
  RunReport::Graph graph;
  RunReport::Heap heap;
  RunReport::HostViews views;
  uint64_t skipped = 0, ran = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Plan plan = Generate(seed);
    ASSERT_FALSE(Check(&plan, {.platforms = {}}));  // makes the heap large enough
    Outcome outcome = Execute(plan, {.platform = scenes::TestedPlatforms()[1]});
    for (const RunReport& report : outcome.reports) {
      graph.definitions_reused += report.graph.definitions_reused;
      graph.definitions_shared += report.graph.definitions_shared;
      graph.definitions_evicted += report.graph.definitions_evicted;
      graph.replays += report.graph.replays;
      heap.reused_bytes += report.heap.reused_bytes;
      heap.added_edges += report.heap.added_edges;
      views.established += report.host_views.established;
      views.reused += report.host_views.reused;
      views.dropped += report.host_views.dropped;
      views.devcopy += report.host_views.devcopy;
    }
    for (const Record& record : outcome.records) ++(record.end == 0 ? skipped : ran);
  }
  EXPECT_GT(graph.definitions_reused, 20u);
  EXPECT_GT(graph.definitions_shared, 5u);
  EXPECT_GT(graph.definitions_evicted, 20u);
  EXPECT_GT(graph.replays, 500u);
  EXPECT_GT(heap.reused_bytes, 1u << 16);
  EXPECT_GT(heap.added_edges, 20u);
  EXPECT_GT(views.established, 20u);
  EXPECT_GT(views.reused, 5u);
  EXPECT_GT(views.dropped, 5u);
  EXPECT_GT(views.devcopy, 20u);
  EXPECT_GT(skipped, ran / 50);
}

}  // namespace
}  // namespace precast::fuzz
