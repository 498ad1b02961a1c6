#include "fuzz/execution.h"

#include "fuzz/orchestration.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

namespace precast::fuzz {

namespace {

constexpr size_t kGuardBytes = 64;
constexpr std::byte kGuard{0xee};

WorkerOptions WorkerOptionsOf(const Plan& plan, const Way& way) {
  const Settings& s = plan.settings;
  return {.platform = way.platform,
          .threads = way.threads,
          .heap = s.heap,
          .kernel_timeout = std::chrono::milliseconds(s.kernel_timeout ? 600'000 : 0),
          .host_views = s.host_views,
          .host_view_budget = s.host_view_budget,
          .definition_budget = s.definition_budget,
          .max_definitions = s.max_definitions,
          .upload = s.upload};
}

class Execution {
 public:
  Execution(const Plan& plan, const Way& way, Recorder* recorder, Outcome* outcome)
      : plan_(plan),
        way_(way),
        recorder_(recorder),
        outcome_(outcome),
        source_{plan, RecordLayout(plan), &outcome->seen, way.records_always},
        worker_(WorkerOptionsOf(plan, way)) {
    for (const Buffer& buffer : plan.buffers) {
      std::vector<std::byte> bytes = RandomBytes(buffer.dtype, buffer.shape.size(), buffer.salt);
      std::vector<std::byte>& host = host_.emplace_back();
      if (buffer.device) {
        tensors_.push_back(worker_.malloc(buffer.shape, buffer.dtype));
        worker_.copy_to(tensors_.back(), bytes.data(), bytes.size());
        continue;
      }
      host.assign(bytes.size() + 2 * kGuardBytes, kGuard);
      std::copy(bytes.begin(), bytes.end(), host.begin() + kGuardBytes);
      WithType(buffer.dtype, [&]<typename T>() {
        tensors_.push_back(Tensor::host(reinterpret_cast<T*>(&host[kGuardBytes]), buffer.shape));
      });
    }
  }

  void Run() {
    for (const Step& step : plan_.steps) Do(step);
    Wait();
    outcome_->reads = outcome_->seen.size();
    for (uint32_t i = 0; i < plan_.buffers.size(); ++i) {
      if (plan_.buffers[i].device) {
        Read(i);
      } else {
        outcome_->seen.push_back(host_[i]);  // guard bytes and all
      }
    }
  }

 private:
  void Do(const Step& step) {
    const Buffer& buffer = plan_.buffers[step.buffer];
    switch (step.kind) {
      case Step::Kind::run:
        return Launch(step);
      case Step::Kind::wait:
        return Wait();
      case Step::Kind::write: {
        std::vector<std::byte> bytes = RandomBytes(buffer.dtype, buffer.shape.size(), step.salt);
        if (buffer.device) {
          worker_.copy_to(tensors_[step.buffer], bytes.data(), bytes.size());
        } else {
          std::copy(bytes.begin(), bytes.end(), host_[step.buffer].begin() + kGuardBytes);
        }
        return;
      }
      case Step::Kind::fill:
        return worker_.memset(tensors_[step.buffer],
                              buffer.dtype == DType::boolean ? 1 : step.salt & 0xff);
      case Step::Kind::read:
        if (buffer.device) return Read(step.buffer);
        outcome_->seen.push_back(host_[step.buffer]);
        return;
      case Step::Kind::renew: {
        worker_.free(tensors_[step.buffer]);
        tensors_[step.buffer] = worker_.malloc(buffer.shape, buffer.dtype);
        std::vector<std::byte> bytes = RandomBytes(buffer.dtype, buffer.shape.size(), step.salt);
        worker_.copy_to(tensors_[step.buffer], bytes.data(), bytes.size());
        return;
      }
    }
  }

  void Read(uint32_t buffer) {
    const Buffer& b = plan_.buffers[buffer];
    std::vector<std::byte> bytes(static_cast<size_t>(b.shape.size()) * SizeOf(b.dtype));
    worker_.copy_from(bytes.data(), tensors_[buffer], bytes.size());
    outcome_->seen.push_back(std::move(bytes));
  }

  void Wait() {
    for (RunHandle& handle : in_flight_) outcome_->reports.push_back(handle.result());
    in_flight_.clear();
  }

  void Launch(const Step& step) {
    const Body& body = plan_.bodies[step.body];
    std::vector<Arg> list;
    for (size_t i = 0; i < step.tensors.size(); ++i) {
      list.emplace_back(body.tensors[i].direction,
                        Apply(tensors_[step.tensors[i].index], step.tensors[i].steps));
    }
    uint64_t passed[kPassedScalars] = {reinterpret_cast<uint64_t>(recorder_), next_record_};
    for (uint64_t number : passed) list.emplace_back(number);
    for (size_t i = 0; i < body.scalars.size(); ++i) {
      list.push_back(ConstantArg(body.scalars[i], step.scalars[i]));
    }
    next_record_ += source_.layout.OfBody(step.body);
    RunOptions options{.verify_replays = plan_.settings.verify_replays,
                       .oracle = way_.oracle,
                       .reverse_blocks = way_.reverse_blocks,
                       .poison_outputs = way_.reverse_blocks};
    if (step.replayable && !way_.records_always)
      return Start(ProgramOf(step.body), list, options, step);
    Orchestration orchestration = [this, &step](Orchestrator& o, const Args& args) {
      CallBody(source_, step.body, step.replayable, o, args);
    };
    Start(orchestration, list, options, step);
  }

  template <typename What>
  void Start(const What& what, const std::vector<Arg>& list, const RunOptions& options,
             const Step& step) {
    if (step.in_flight && !way_.oracle) {
      in_flight_.push_back(worker_.submit(what, list, options));
    } else {
      outcome_->reports.push_back(worker_.run(what, list, options));
    }
  }

  const Program& ProgramOf(uint32_t body) {
    auto [at, added] = programs_.try_emplace(body);
    if (!added) return at->second;
    Program& program = at->second;
    program.name = fmt::format("body {}", body);
    program.orchestration = [this, body](Orchestrator& o, const Args& args) {
      CallBody(source_, body, true, o, args);
    };
    for (const Parameter& p : plan_.bodies[body].tensors) {
      program.signature.push_back({p.direction, p.dtype, p.shape.rank(), "tensor"});
    }
    for (size_t i = 0; i < kPassedScalars; ++i) {
      program.signature.push_back({Direction::scalar, DType::u64, 0, "passed"});
    }
    for (DType dtype : plan_.bodies[body].scalars) {
      program.signature.push_back({Direction::scalar, dtype, 0, "scalar"});
    }
    program.kernels = Kernels();
    program.replayable = true;
    return worker_.load(program);
  }

  const Plan& plan_;
  const Way& way_;
  Recorder* recorder_;
  Outcome* outcome_;
  Source source_;
  std::map<uint32_t, Program> programs_;  // outlive the worker
  std::vector<std::vector<std::byte>> host_;
  Worker worker_;
  std::vector<Tensor> tensors_;
  std::deque<RunHandle> in_flight_;
  uint64_t next_record_ = 0;
};

}  // namespace

std::string ToString(const Way& way) {
  if (way.oracle) {
    return fmt::format("{} by the oracle{}", way.platform,
                       way.reverse_blocks ? ", blocks in reverse and outputs poisoned" : "");
  }
  return fmt::format("{} with {} thread{}", way.platform, way.threads, way.threads == 1 ? "" : "s");
}

Outcome Execute(const Plan& plan, const Way& way) {
  RecordLayout layout(plan);
  uint64_t records = 0;
  for (const Step& step : plan.steps) {
    if (step.kind == Step::Kind::run) records += layout.OfBody(step.body);
  }
  Recorder recorder(records, !way.oracle && way.threads > 1);
  Outcome outcome;
  try {
    Execution(plan, way, &recorder, &outcome).Run();
  } catch (const Error& error) {
    outcome.failed = error;
  }
  outcome.records = recorder.records();
  return outcome;
}

}  // namespace precast::fuzz
