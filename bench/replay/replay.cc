#include "replay/replay.h"

#include "graphs/contender.h"
#include "graphs/measure.h"

#include <precast/precast.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

namespace precast::bench {

namespace {

constexpr size_t kTensors = 26;
constexpr int kLayers = 40;
constexpr uint64_t kNodes = 277;

PRECAST_KERNEL(empty, Core::vector)(const KernelContext&) {}
PRECAST_KERNEL(busy, Core::vector)(const KernelContext& k) { Work(k.scalar<uint32_t>(0)); }

/// 11 stages of 25 tasks, each of which reads two results of the stage before and a weight; then
/// one task that writes tensor 0, and one that writes tensor 25.
void Layer(Orchestrator& o, const Args& args) {
  constexpr int kWidth = 25, kStages = 11;
  std::vector<Tensor> before(kWidth, args.tensor(0)), now(kWidth);
  for (int stage = 0; stage < kStages; ++stage) {
    for (int i = 0; i < kWidth; ++i) {
      auto at = static_cast<size_t>(i);
      now[at] = o.alloc({16}, DType::f32);
      o.submit(empty,
               {in(before[at]), in(before[(at + 1) % kWidth]),
                in(args.tensor(1 + static_cast<size_t>(stage * kWidth + i) % 24)), out(now[at])});
    }
    before.swap(now);
  }
  o.submit(empty, {in(before[0]), in(before[7]), in(before[14]), inout(args.tensor(0)),
                   args.bound_scalar<uint32_t>(0)});
  o.submit(empty, {in(before[21]), in(args.tensor(0)), inout(args.tensor(25))});
}

class Decoder {
 public:
  explicit Decoder(int threads) : worker_({.platform = "cpu", .threads = threads}) {
    hidden_ = worker_.malloc({16}, DType::f32);
    for (int layer = 0; layer < kLayers; ++layer) {
      layers_.emplace_back();
      for (size_t i = 1; i < kTensors; ++i) {
        layers_.back().push_back(worker_.malloc({16}, DType::f32));
      }
    }
  }

  Worker& worker() { return worker_; }

  /// The arguments of a run: all tensors.
  std::vector<Arg> Arguments() const {
    std::vector<Arg> args = {inout(hidden_)};
    for (const auto& layer : layers_) {
      for (size_t i = 0; i < layer.size(); ++i) {
        args.push_back(i + 1 == layer.size() ? inout(layer[i]) : in(layer[i]));
      }
    }
    return args;
  }

  static std::vector<Arg> LayerArguments(const Args& args, int layer, uint32_t position) {
    std::vector<Arg> list = {inout(args.tensor(0))};
    size_t first = 1 + static_cast<size_t>(layer) * (kTensors - 1);
    for (size_t i = 0; i + 1 < kTensors; ++i) {
      const Tensor& tensor = args.tensor(first + i);
      list.push_back(i + 2 == kTensors ? inout(tensor) : in(tensor));
    }
    list.emplace_back(position);
    return list;
  }

 private:
  Worker worker_;
  Tensor hidden_;
  std::vector<std::vector<Tensor>> layers_;
};

/// 3 tasks, 40 layers, 4 tasks. The time of the submissions of graphs alone goes to `*graphs_ns`.
void Token(Orchestrator& o, const Args& args, double* graphs_ns) {
  for (int i = 0; i < 3; ++i) o.submit(empty, {inout(args.tensor(0))});
  Clock::time_point begin = Clock::now();
  for (size_t layer = 0; layer < kLayers; ++layer) {
    auto w = [&](size_t i) -> const Tensor& { return args.tensor(layer * (kTensors - 1) + i); };
    o.submit_graph("layer", Layer,
                   {inout(args.tensor(0)),
                    in(w(1)),
                    in(w(2)),
                    in(w(3)),
                    in(w(4)),
                    in(w(5)),
                    in(w(6)),
                    in(w(7)),
                    in(w(8)),
                    in(w(9)),
                    in(w(10)),
                    in(w(11)),
                    in(w(12)),
                    in(w(13)),
                    in(w(14)),
                    in(w(15)),
                    in(w(16)),
                    in(w(17)),
                    in(w(18)),
                    in(w(19)),
                    in(w(20)),
                    in(w(21)),
                    in(w(22)),
                    in(w(23)),
                    in(w(24)),
                    inout(w(25)),
                    uint32_t{7}});
  }
  *graphs_ns = NsSince(begin);
  for (int i = 0; i < 4; ++i) o.submit(empty, {inout(args.tensor(0))});
}

void FlatToken(Orchestrator& o, const Args& args) {
  for (int i = 0; i < 3; ++i) o.submit(empty, {inout(args.tensor(0))});
  for (int layer = 0; layer < kLayers; ++layer) {
    std::vector<Arg> list = Decoder::LayerArguments(args, layer, 7);
    constexpr int kWidth = 25, kStages = 11;
    auto s = o.scope();
    std::vector<Tensor> before(kWidth, args.tensor(0)), now(kWidth);
    for (int stage = 0; stage < kStages; ++stage) {
      for (int i = 0; i < kWidth; ++i) {
        auto at = static_cast<size_t>(i);
        now[at] = o.alloc({16}, DType::f32);
        const Arg& weight = list[1 + static_cast<size_t>(stage * kWidth + i) % 24];
        o.submit(empty, {in(before[at]), in(before[(at + 1) % kWidth]), weight, out(now[at])});
      }
      before.swap(now);
    }
    o.submit(empty,
             {in(before[0]), in(before[7]), in(before[14]), inout(args.tensor(0)), uint32_t{7}});
    o.submit(empty, {in(before[21]), in(args.tensor(0)), list[25]});
  }
  for (int i = 0; i < 4; ++i) o.submit(empty, {inout(args.tensor(0))});
}

}  // namespace

nlohmann::json MeasureReplay(int threads, int repetitions, Trace* trace) {
  Decoder decoder(threads);
  std::vector<Arg> args = decoder.Arguments();
  double graphs_ns = 0;
  auto token = [&](Orchestrator& o, const Args& a) { Token(o, a, &graphs_ns); };
  double ignored = 0;
  Program program{.name = "token",
                  .summary = "a token",
                  .orchestration = [&](Orchestrator& o, const Args& a) { Token(o, a, &ignored); },
                  .signature = {},
                  .kernels = {empty},
                  .replayable = true};
  for (const Arg& arg : args) {
    program.signature.push_back({.direction = arg.direction(), .dtype = DType::f32, .name = "t"});
  }
  decoder.worker().load(program);
  std::vector<double> cold, record, warm, replayable, submit, execute, flat;
  for (int i = 0; i < repetitions; ++i) {
    {
      Decoder fresh(threads);
      std::vector<Arg> own = fresh.Arguments();
      // Pinned memory, threads and pages are those of any first run; recording is what is new.
      fresh.worker().run(
          [](Orchestrator& o, const Args& a) { o.submit(empty, {inout(a.tensor(0))}); }, own,
          {.skip_device_run = true});
      RunReport first = fresh.worker().run(token, own, {.skip_device_run = true});
      cold.push_back(first.control_plane_us());
      double first_ns = graphs_ns;
      fresh.worker().run(token, own, {.skip_device_run = true});
      record.push_back((first_ns - graphs_ns) / static_cast<double>(kNodes));
    }
    RunReport report = decoder.worker().run(token, args);
    warm.push_back(report.control_plane_us());
    submit.push_back(graphs_ns / kLayers);
    replayable.push_back(decoder.worker().run(program, args).control_plane_us());
    execute.push_back(report[Phase::execute].wall_us);
    flat.push_back(decoder.worker().run(FlatToken, args)[Phase::execute].wall_us);
  }
  if (trace != nullptr) decoder.worker().run(token, args, {.trace = trace});
  nlohmann::json results = nlohmann::json::array();
  auto add = [&](const char* name, double value, const char* unit) {
    results.push_back({{"name", name}, {"value", value}, {"unit", unit}});
  };
  double execute_us = Median(execute);
  add("record_ns_per_node", Median(record), "ns");
  add("replay_submit_ns", Median(submit), "ns");
  add("control_plane_warm_us", Median(warm), "us");
  add("control_plane_replayable_us", Median(replayable), "us");
  add("control_plane_cold_us", Median(cold), "us");
  add("execute_us", execute_us, "us");
  add("execute_ratio_to_flat", execute_us / Median(flat), "");
  return {{"suite", "replay"},
          {"machine", MachineName()},
          {"threads", threads},
          {"results", std::move(results)}};
}

nlohmann::json MeasurePipeline(int threads, int repetitions, Trace* trace) {
  constexpr int kRuns = 100;
  constexpr uint32_t kRounds = 2000;  // of a kernel's loop
  // One thread executes: the other processor is the one that binds.
  Worker worker({.platform = "cpu", .threads = std::max(1, threads - 1)});
  Tensor hidden = worker.malloc({16}, DType::f32);
  auto orchestration = [](Orchestrator& o, const Args& args) {
    for (int i = 0; i < 300; ++i) o.submit(busy, {inout(args.tensor(0)), kRounds});
  };
  std::vector<double> execute, bind, pipelined, serial;
  for (int i = 0; i < repetitions; ++i) {
    Clock::time_point begin = Clock::now();
    std::vector<RunHandle> runs;
    for (int run = 0; run < kRuns; ++run) {
      runs.push_back(worker.submit(orchestration, {inout(hidden)}));
      if (runs.size() > 2) {  // two in flight, one being bound
        runs.front().result();
        runs.erase(runs.begin());
      }
    }
    for (RunHandle& run : runs) run.wait();
    runs.clear();
    pipelined.push_back(NsSince(begin) / kRuns / 1000);
    begin = Clock::now();
    for (int run = 0; run < kRuns; ++run) {
      RunReport report = worker.submit(orchestration, {inout(hidden)}).result();
      execute.push_back(report[Phase::execute].wall_us);
      bind.push_back(report.control_plane_us());
    }
    serial.push_back(NsSince(begin) / kRuns / 1000);
  }
  if (trace != nullptr) {
    std::vector<RunHandle> runs;
    for (int run = 0; run < 5; ++run) {
      runs.push_back(worker.submit(orchestration, {inout(hidden)}, {.trace = trace}));
    }
    for (RunHandle& run : runs) run.wait();
  }
  nlohmann::json results = nlohmann::json::array();
  auto add = [&](const char* name, double value, const char* unit) {
    results.push_back({{"name", name}, {"value", value}, {"unit", unit}});
  };
  add("execute_us", Median(execute), "us");
  add("control_plane_us", Median(bind), "us");
  add("serial_us_per_run", Median(serial), "us");
  add("pipelined_us_per_run", Median(pipelined), "us");
  add("pipelined_ratio_to_execute", Median(pipelined) / Median(execute), "");
  return {{"suite", "pipeline"},
          {"machine", MachineName()},
          {"threads", threads},
          {"results", std::move(results)}};
}

}  // namespace precast::bench
