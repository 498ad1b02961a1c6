#include "run/run_state.h"

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

namespace precast::detail {

namespace {

constexpr uint64_t kPartAlignment = 256;  // of the parts of the device block

uint64_t AlignUp(uint64_t bytes) {
  return (bytes + kPartAlignment - 1) / kPartAlignment * kPartAlignment;
}

/// Gives the error met, if any; address 0 is nothing.
std::optional<Error> Free(device::Driver* driver, device::Address address) noexcept {
  if (address == 0) return std::nullopt;
  try {
    driver->Free(address);
  } catch (const Error& error) {
    return error;
  } catch (const std::exception&) {
    return Error(ErrorCode::internal, "not an Error");  // short, so that it needs no memory
  }
  return std::nullopt;
}

}  // namespace

RunContext::RunContext(const RunDevice& run_device)
    : device(run_device), arena(run_device.driver), upload(run_device.driver), builder(run_device) {
  image.grow = [this](graph::ImageMemory& self, uint64_t bytes, uint64_t used) {
    if (auto error = arena.Reserve(bytes, used)) failed_release = std::move(error);
    self.data = arena.data();
    self.capacity = arena.capacity();
  };
}

RunContext::~RunContext() {
  builder.Release();
  ReleasePinned();
  ReleaseDevice();
}

void RunContext::ReserveDevice(uint64_t bytes) {
  if (bytes <= block_bytes) return;
  uint64_t roomy = std::max(bytes, block_bytes + block_bytes / 2);
  if (auto error = ReleaseDevice()) failed_release = std::move(error);
  try {
    block = device.driver->Allocate(roomy);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::out_of_memory) throw;
    if (device.definitions->Trim(true) == 0 && roomy == bytes) throw;
    roomy = bytes;
    block = device.driver->Allocate(bytes);
  }
  block_bytes = roomy;
}

std::optional<Error> RunContext::ReleasePinned() noexcept {
  image.data = nullptr;
  image.capacity = 0;
  std::optional<Error> error = upload.Release();
  std::optional<Error> second = arena.Release();
  return second ? second : error;
}

std::optional<Error> RunContext::ReleaseDevice() noexcept {
  block_bytes = 0;
  return Free(device.driver, std::exchange(block, 0));
}

std::pair<uint64_t, uint64_t> RunContext::UploadSubmissions() {
  const void* bytes = image.data;
  const auto& header = *static_cast<const abi::Header*>(bytes);
  const auto* bindings = abi::At<abi::Binding>(bytes, header.bindings);
  uint64_t copied = 0;
  std::vector<char> record;
  for (abi::TaskId id = abi::kFirstTask; id < abi::EndTask(&header);) {
    const abi::Task& task = *abi::TaskAt(bytes, id);
    id += task.units;
    if ((task.flags & abi::kTaskGraph) == 0) continue;
    uint64_t words = task.tensors;
    words += task.scalars * ((task.flags & abi::kTaskPasses) != 0 ? 2u : 1u);
    const char* begin = reinterpret_cast<const char*>(&task);
    record.assign(begin, begin + sizeof(task));
    const char* first = reinterpret_cast<const char*>(bindings + task.blocks);
    record.insert(record.end(), first, first + words * sizeof(abi::Binding));
    submissions.push_back(0);  // so that the address has its place before there is one
    submissions.back() = device.driver->Allocate(record.size());
    device.driver->CopyToDevice(submissions.back(), record.data(), record.size());
    copied += record.size();
  }
  return {submissions.size(), copied};
}

std::optional<Error> RunContext::ReleaseSubmissions() noexcept {
  std::optional<Error> first;
  for (device::Address address : submissions) {
    std::optional<Error> error = Free(device.driver, address);
    if (!first) first = std::move(error);
  }
  submissions.clear();
  return first;
}

void ContextOwner::NoteLoss(const Error& error) noexcept {
  if (error.code() != ErrorCode::device_lost) return;
  std::lock_guard lock(loss_mutex_);
  if (loss_) return;
  try {
    loss_.emplace(error);
  } catch (const std::bad_alloc&) {
    loss_.emplace(ErrorCode::device_lost, "device lost");  // short, so that it needs no memory
  }
  lost_.store(true, std::memory_order_release);
}

RunState::~RunState() { Detach(); }

RunState::Moment RunState::Now() const {
  return {Clock::now(), context_->device.driver->ModelledPicoseconds()};
}

void RunState::EndPhase(Phase phase, Moment* since, uint64_t bytes) {
  Moment now = Now();
  RunReport::PhaseFigures& figures = report_[phase];
  figures.wall_us += std::chrono::duration<double, std::micro>(now.wall - since->wall).count();
  figures.modelled_ps += now.modelled_ps - since->modelled_ps;
  figures.bytes += bytes;
  if (tracer_ != nullptr) {
    tracer_->AddPhase(phase, since->wall, now.wall, bytes, now.modelled_ps - since->modelled_ps,
                      true);
  }
  *since = now;
}

void RunState::BeginTrace(const Program* program) {
  if (parameters_.trace == nullptr) return;
  tracer_ = std::make_unique<run::RunTracer>(parameters_.trace, context_->device.driver, begun_);
  RunTrace& trace = tracer_->trace();
  if (program != nullptr) trace.program = program->name;
  trace.platform = parameters_.platform;
  trace.worker = parameters_.trace->WorkerNumber(parameters_.worker);
  tracer_->host().NoteMapped(context_->device.memory->usage().mapped_bytes);
}

run::TracedImage RunState::Image() const {
  return {context_->image.data, context_->builder.definitions()};
}

/// What the run has recorded goes to its Trace. Idempotent.
void RunState::EndTrace() noexcept {
  if (tracer_ == nullptr) return;
  std::unique_ptr<run::RunTracer> tracer = std::move(tracer_);
  try {
    if (ticket_ != 0 && !collected_) context_->trace = tracer->TakeBuffer();
    std::string dropped = tracer->Deliver(Image(), *context_->device.kernels,
                                          error_ ? error_->message() : std::string_view());
    if (!dropped.empty()) report_.warnings.push_back(std::move(dropped));
  } catch (const std::exception&) {
    tracer->Lose();
  }
}

void RunState::CloseHostViews(Moment* since) {
  context_->builder.access().Close(&report_);
  if (auto error = context_->ReleaseSubmissions()) {
    report_.warnings.push_back(
        fmt::format("memory of a graph's submission was not given back: {}", error->message()));
  }
  EndPhase(Phase::host_view_close, since, 0);
}

/// The image has just been completed. That goes on with its copy after this.
void RunState::UploadSubmissions(Moment* since) {
  EndPhase(Phase::arena_h2d, since, 0);
  auto [copies, bytes] = context_->UploadSubmissions();
  report_.copies.control += copies;
  report_.copies.bytes += bytes;
  EndPhase(Phase::graph_upload, since, bytes);
}

void RunState::NoteFailure() noexcept {
  try {
    try {
      throw;
    } catch (const Error& error) {
      error_ = error;
    } catch (const std::bad_alloc&) {
      error_ = Error(ErrorCode::out_of_memory, "the host has no memory left for this run");
    } catch (const std::exception& error) {
      error_ = Error(ErrorCode::internal, error.what());
    }
    std::string ranges = context_->builder.access().ChangedRanges();
    if (!ranges.empty()) {
      error_ = Error(error_->code(),
                     fmt::format("{}; set_tensor_data had already changed {} of child memory",
                                 error_->message(), ranges),
                     error_->location());
    }
  } catch (...) {  // no memory for the message: this one needs none
    if (!error_) error_.emplace(ErrorCode::out_of_memory, "no host memory");
  }
  owner_->NoteLoss(*error_);
  finished_ = true;
}

void RunState::Launch(const Orchestration& orchestration, ArgList args, const Program* program) {
  begun_ = Clock::now();
  try {
    BeginTrace(program);
    device::HostTraceScope scope(host_trace());
    Bind(orchestration, args, program);
  } catch (...) {
    device::HostTraceScope scope(host_trace());
    NoteFailure();
    Return(ticket_);
    throw Error(*error_);
  }
}

void RunState::Bind(const Orchestration& orchestration, ArgList args, const Program* program) {
  RunBuilder& builder = context_->builder;
  graph::Builder& graph = builder.graph();
  device::Driver& driver = *context_->device.driver;
  Moment since = Now();
  since.wall = begun_;

  builder.Inspect(parameters_.inspector != nullptr);
  builder.Begin(&context_->image, parameters_.serial, parameters_.heap, args, program,
                parameters_.host_views, parameters_.options.verify_replays);
  builder.set_trace(host_trace());
  EndPhase(Phase::args, &since, 0);

  if (program != nullptr && program->replayable) {
    builder.OrchestrateReplayable(*program, args);
  } else {
    builder.Orchestrate(orchestration);
  }
  EndPhase(Phase::host_orch, &since, 0);

  // Places on the device: the image, then staged arguments, then the graph heap.
  owner_->process.Check("a run");  // the orchestration may have forked
  uint64_t image_bytes = AlignUp(graph.SealedBytes());
  uint64_t staging_bytes = AlignUp(builder.host().Place());
  uint64_t heap_bytes = graph.heap().peak_bytes();
  context_->ReserveDevice(image_bytes + staging_bytes + heap_bytes);
  device::Address image = context_->block;
  staging_ = image + image_bytes;
  auto [copies, bytes] = builder.host().StageIn(driver, staging_, graph);
  report_.copies.staging = copies;
  report_.copies.bytes += bytes;
  EndPhase(Phase::args, &since, bytes);
  uint64_t uploaded = builder.UploadDefinitions(context_->upload);
  report_.copies.control = uploaded > 0 ? 1 : 0;
  report_.copies.bytes += uploaded;
  if (uploaded > 0 && !context_->upload.pinned()) {
    report_.warnings.push_back(fmt::format(
        "no pinned memory for {} bytes of definitions: sent from pageable memory", uploaded));
  }
  EndPhase(Phase::graph_upload, &since, uploaded);

  std::vector<abi::Slot>& slots = context_->slots;
  slots.assign(graph.slots(), {});
  slots[0] = {staging_ + staging_bytes, heap_bytes};
  for (const run::HostArguments::Span& span : builder.host().spans()) {
    slots[span.slot] = {staging_ + span.device_offset, span.bytes};
  }
  for (const run::HostAccess::Use& use : builder.access().uses()) {
    slots[graph.buffer(use.buffer).slot] = {use.address, use.bytes};
  }
  uint64_t sealed = graph.Seal(slots);
#ifdef PRECAST_VALIDATE
  builder.CheckImage({context_->image.data, sealed}, graph::ImageKind::run);
#endif
  if (parameters_.inspector != nullptr) [[unlikely]] {
    (*parameters_.inspector)(builder, std::as_bytes(std::span(context_->image.data, sealed)));
  }
  if (parameters_.upload == UploadMode::per_submission) [[unlikely]]
    UploadSubmissions(&since);
  driver.CopyToDevice(image, context_->image.data, sealed);
  report_.copies.control += 1;
  report_.copies.bytes += sealed;
  EndPhase(Phase::arena_h2d, &since, sealed);

  const graph::Builder::Statistics& statistics = graph.statistics();
  const GraphFigures& figures = builder.graph_figures();
  report_.graph = {.tasks = statistics.tasks,
                   .edges = statistics.edges,
                   .blocks = statistics.blocks + figures.blocks,
                   .image_bytes = sealed,
                   .definitions_recorded = figures.recorded,
                   .definitions_reused = figures.reused,
                   .definitions_shared = figures.shared,
                   .definitions_evicted =
                       figures.replays > 0 ? context_->device.definitions->figures().evicted : 0,
                   .variants = figures.variants,
                   .replays = figures.replays};
  for (std::string& warning : builder.warnings()) report_.warnings.push_back(std::move(warning));
  report_.heap = {graph.heap().peak_bytes(), graph.heap().reused_bytes(), graph.heap_edges()};
  report_.threads = parameters_.options.oracle ? 1 : parameters_.threads;
  report_.assumed = parameters_.assumed;
  if (!context_->arena.pinned()) {
    report_.warnings.push_back(
        fmt::format("no pinned memory for {} bytes of image: sent from pageable memory", sealed));
  }
  if (context_->failed_release) {
    report_.warnings.push_back(
        fmt::format("memory that was replaced by more was not given back: {}",
                    context_->failed_release->message()));
    context_->failed_release.reset();
  }
  abi::TraceHeader* trace_buffer = nullptr;
  if (tracer_ != nullptr && !parameters_.options.skip_device_run) {
    trace_buffer =
        tracer_->MakeBuffer(Image(), report_.threads, parameters_.options.poison_outputs);
    since = Now();
  }
  launched_ = since.wall;
  if (parameters_.options.skip_device_run) {
    finished_ = true;
    CloseHostViews(&since);
    report_.total_us = std::chrono::duration<double, std::micro>(since.wall - begun_).count();
    EndTrace();
    Return(0);
    return;
  }

  device::Launch launch;
  launch.image = image;
  launch.image_bytes = sealed;
  launch.threads = parameters_.threads;
  launch.kernel_timeout = parameters_.kernel_timeout;
  launch.caller_waits = parameters_.caller_waits;
  launch.oracle = parameters_.options.oracle;
  launch.reverse_blocks = parameters_.options.reverse_blocks;
  launch.poison_outputs = parameters_.options.poison_outputs;
  launch.measure_kernels = parameters_.options.measure_kernels;
  launch.observer = parameters_.observer;
  launch.trace = trace_buffer;
  std::lock_guard lock(owner_->launch_mutex());
  ticket_ = driver.Execute(launch);
  report_[Phase::execute].modelled_ps += Now().modelled_ps - since.modelled_ps;
  for (const run::HostAccess::Use& use : builder.access().uses()) {
    context_->device.memory->MarkUse(use.allocation, ticket_,
                                     graph.buffer(use.buffer).is(graph::Buffer::kModified));
  }
}

bool RunState::Wait(std::chrono::nanoseconds timeout) {
  if (finished_) return true;
  owner_->process.Check("a run handle");
  device::Driver& driver = *context_->device.driver;
  if (driver.InKernel()) {
    Fail(
        ErrorCode::invalid_argument,
        "waiting for a run inside a kernel of the same worker, which would never end; wait outside "
        "of kernels");
  }
  device::HostTraceScope scope(host_trace());
  try {
    if (!driver.Wait(ticket_, timeout)) return false;
  } catch (...) {
    NoteFailure();
    Return(ticket_);  // the device may still be at it
    return true;
  }
  Finish();
  return true;
}

const RunReport& RunState::Result() {
  Wait(std::chrono::nanoseconds::max());
  if (error_) throw Error(*error_);
  return report_;
}

void RunState::Detach() noexcept {
  if (context_ && ticket_ != 0) {
    try {
      Wait(std::chrono::nanoseconds::max());
    } catch (...) {
      NoteFailure();
    }
  }
  Return(ticket_);  // unless the run has ended
  owner_ = nullptr;
}

/// After the device has ended the run.
void RunState::Finish() noexcept {
  device::Ticket quarantined = ticket_;  // until its outcome is known
  try {
    Collect(&quarantined);
  } catch (...) {
    NoteFailure();
  }
  finished_ = true;
  Return(quarantined);
}

void RunState::Collect(device::Ticket* quarantined) {
  device::Outcome outcome = context_->device.driver->Collect(ticket_);
  collected_ = true;
  if (!outcome.quarantined) *quarantined = 0;
  report_.in_kernels_us = outcome.in_kernels_us;
  // The run was over then, even if nobody asked for it until now.
  Moment since = Now();
  Clock::time_point now = since.wall;
  Clock::time_point ended = outcome.ended == Clock::time_point() ? now : outcome.ended;
  report_[Phase::execute].wall_us =
      std::chrono::duration<double, std::micro>(ended - launched_).count();
  if (tracer_ != nullptr) {
    // The host goes on only now, if it has waited all the time.
    bool waited = parameters_.caller_waits;
    tracer_->AddPhase(Phase::execute, launched_, waited ? now : ended, 0,
                      report_[Phase::execute].modelled_ps, waited);
  }
  if (!outcome.ok) throw Error(outcome.code, outcome.message);
  auto [copies, bytes] = context_->builder.host().CopyBack(*context_->device.driver, staging_,
                                                           context_->builder.graph());
  report_.copies.back = copies;
  report_.copies.bytes += bytes;
  EndPhase(Phase::copy_back, &since, bytes);
  CloseHostViews(&since);
  Clock::duration total = since.wall - begun_;
  if (!parameters_.caller_waits) total -= now - ended;
  report_.total_us = std::chrono::duration<double, std::micro>(total).count();
  EndTrace();
}

void RunState::Return(device::Ticket quarantined) noexcept {
  if (!context_) return;
  if (!owner_->process.here()) {  // all that it would give back is the parent's
    [[maybe_unused]] RunContext* left = context_.release();
    return;
  }
  context_->ReleaseSubmissions();  // of a run that failed; the device never reads them
  EndTrace();
  if (quarantined == 0) context_->builder.Release();
  owner_->Return(this, std::move(context_), quarantined);
}

}  // namespace precast::detail
