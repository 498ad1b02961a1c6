// oneTBB: a continue_node per task and an edge per dependence. It infers nothing and passes no
// arguments, so the edges are given.
#include "contender.h"

#include <malloc.h>
#include <tbb/flow_graph.h>
#include <tbb/global_control.h>
#include <tbb/task_arena.h>

#include <deque>

namespace precast::bench {

namespace {

using Node = tbb::flow::continue_node<tbb::flow::continue_msg>;

class OneTbbContender final : public Contender {
 public:
  explicit OneTbbContender(int threads)
      : limit_(tbb::global_control::max_allowed_parallelism, static_cast<size_t>(threads)),
        arena_(threads) {}
  std::string_view name() const override { return "onetbb"; }

  std::optional<Sample> Run(const Workload& w, const Setting& setting) override {
    Sample sample;
    arena_.execute([&] {
      size_t before = mallinfo2().uordblks;
      Clock::time_point begin = Clock::now();
      {
        tbb::flow::graph graph;
        std::deque<Node> nodes;
        for (uint32_t i = 0; i < w.tasks; ++i) {
          nodes.emplace_back(graph,
                             [work = setting.work](const tbb::flow::continue_msg&) { Work(work); });
          for (uint32_t producer : w.ProducersOf(i)) {
            tbb::flow::make_edge(nodes[producer], nodes[i]);
          }
        }
        if (setting.suite == Suite::submit) {
          sample.ns = NsSince(begin);
          sample.bytes = static_cast<double>(mallinfo2().uordblks - before);
          return;
        }
        if (setting.suite == Suite::execute) begin = Clock::now();
        for (uint32_t i = 0; i < w.tasks; ++i) {
          if (w.ProducersOf(i).empty()) nodes[i].try_put(tbb::flow::continue_msg());
        }
        graph.wait_for_all();
        if (setting.suite == Suite::execute) sample.ns = NsSince(begin);
      }
      if (setting.suite == Suite::run) sample.ns = NsSince(begin);
    });
    return sample;
  }

 private:
  tbb::global_control limit_;
  tbb::task_arena arena_;
};

}  // namespace

std::unique_ptr<Contender> MakeOneTbb(int threads) {
  return std::make_unique<OneTbbContender>(threads);
}

}  // namespace precast::bench
