// Precast, through its public API: two or more `in`, one `out`, tensors made by `alloc`.
#include "contender.h"

#include <precast/precast.h>

#include <utility>

namespace precast::bench {

namespace {

PRECAST_KERNEL(body, Core::vector)(const KernelContext& k) { Work(k.scalar<uint32_t>(0)); }
PRECAST_KERNEL(empty, Core::vector)(const KernelContext&) {}

constexpr int64_t kTile = 8;  // elements on a tile's side
constexpr int64_t kElements = 16;

/// The tensors of a workload as a run sees them.
std::vector<Tensor> MakeTensors(Orchestrator& o, const Args& args, const Workload& w) {
  std::vector<Tensor> tensors;
  tensors.reserve(w.tasks + kExternal);
  tensors.push_back(args.tensor(0));
  tensors.push_back(args.tensor(1));
  if (w.side == 0) {
    for (uint32_t i = 0; i < w.tasks; ++i) tensors.push_back(o.alloc({kElements}, DType::f32));
    return tensors;
  }
  const Tensor& buffer = args.tensor(2);
  for (uint32_t cell = 0; cell < w.tasks; ++cell) {
    tensors.push_back(buffer.view({cell / w.side * kTile, cell % w.side * kTile}, {kTile, kTile}));
  }
  return tensors;
}

template <typename Append>
void SubmitTasks(const Workload& w, const std::vector<Tensor>& tensors, Append&& append) {
  for (uint32_t i = 0; i < w.tasks; ++i) {
    std::span<const uint32_t> reads = w.ReadsOf(i);
    const Tensor& target = tensors[kExternal + (w.side == 0 ? i : w.cell[i])];
    if (reads.size() == 2) {
      append({in(tensors[reads[0]]), in(tensors[reads[1]]), out(target)});
    } else if (reads.size() == 3) {
      append({in(tensors[reads[0]]), in(tensors[reads[1]]), in(tensors[reads[2]]), out(target)});
    } else {
      append({in(tensors[reads[0]]), in(tensors[reads[1]]), in(tensors[reads[2]]),
              in(tensors[reads[3]]), out(target)});
    }
  }
}

class PrecastContender final : public Contender {
 public:
  explicit PrecastContender(int threads)
      : worker_({.platform = "cpu", .threads = threads, .heap = Bytes{1} << 33}),
        a_(kElements),
        b_(kElements) {}

  std::string_view name() const override { return "precast"; }

  std::optional<Sample> Run(const Workload& w, const Setting& setting) override {
    double submit_ns = 0, alloc_ns = 0;
    auto orchestration = [&](Orchestrator& o, const Args& args) {
      Clock::time_point begin = Clock::now();
      std::vector<Tensor> tensors = MakeTensors(o, args, w);
      alloc_ns = NsSince(begin);
      begin = Clock::now();
      if (setting.work == 0) {
        SubmitTasks(w, tensors, [&](ArgList list) { o.submit(empty, list); });
      } else {
        SubmitTasks(w, tensors, [&](ArgList list) {
          std::vector<Arg> with(list.begin(), list.end());
          with.emplace_back(setting.work);
          o.submit(body, with);
        });
      }
      submit_ns = NsSince(begin);
    };
    RunOptions options;
    options.skip_device_run = setting.suite == Suite::submit;
    options.trace = setting.trace;
    std::vector<Arg> args = {in(a_), in(b_)};
    if (w.side != 0) args.push_back(inout(TileBuffer(w.side)));
    Clock::time_point begin = Clock::now();
    RunReport report = worker_.run(orchestration, args, options);
    double run_ns = NsSince(begin);
    Sample sample;
    sample.bytes = static_cast<double>(report.graph.image_bytes);
    sample.ns = setting.suite == Suite::submit    ? submit_ns
                : setting.suite == Suite::execute ? report[Phase::execute].wall_us * 1000
                                                  : run_ns - alloc_ns;
    return sample;
  }

 private:
  // No task touches its bytes, so none of it becomes memory.
  const Tensor& TileBuffer(uint32_t side) {
    if (side != side_) {
      if (side_ != 0) worker_.free(tiles_);
      tiles_ = worker_.malloc({side * kTile, side * kTile}, DType::f32);
      side_ = side;
    }
    return tiles_;
  }

  Worker worker_;
  std::vector<float> a_, b_;
  Tensor tiles_;
  uint32_t side_ = 0;
};

class TracedContender final : public Contender {
 public:
  TracedContender(int threads, bool system_clock)
      : precast_(threads), system_clock_(system_clock) {}

  std::string_view name() const override { return system_clock_ ? "traced_sys" : "traced"; }

  std::optional<Sample> Run(const Workload& w, const Setting& setting) override {
    Trace trace({.buffer = Bytes{1} << 33, .system_clock = system_clock_});
    Setting traced = setting;
    traced.trace = &trace;
    std::optional<Sample> sample = precast_.Run(w, traced);
    for (const RunTrace& run : trace.runs()) {
      if (run.dropped_blocks > 0) Fail(ErrorCode::internal, "the trace dropped blocks");
    }
    return sample;
  }

 private:
  PrecastContender precast_;
  const bool system_clock_;
};

}  // namespace

std::unique_ptr<Contender> MakeTracedPrecast(int threads, bool system_clock) {
  return std::make_unique<TracedContender>(threads, system_clock);
}

std::unique_ptr<Contender> MakePrecast(int threads) {
  return std::make_unique<PrecastContender>(threads);
}

}  // namespace precast::bench
