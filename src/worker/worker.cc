#include "base/tensor_access.h"
#include "device/tracing_driver.h"
#include "platforms/registry.h"
#include "worker/signature.h"
#include "worker/worker_impl.h"

#include <precast/worker.h>

#include <algorithm>
#include <new>
#include <random>
#include <utility>

namespace precast {

namespace detail {

namespace {

std::vector<ModelledCost> ToModelledCosts(std::span<const device::CallCost> costs) {
  auto us = [](uint64_t picoseconds) { return static_cast<double>(picoseconds) / 1e6; };
  std::vector<ModelledCost> result;
  for (const device::CallCost& cost : costs) {
    result.push_back({std::string(cost.call), us(cost.floor), us(cost.per_page),
                      us(cost.per_huge_page), us(cost.per_byte << 20), std::string(cost.assumed)});
  }
  return result;
}

WorkerProperties ToWorkerProperties(const device::Properties& p) {
  return {.platform = p.platform,
          .cube_cores = p.cube_cores,
          .vector_cores = p.vector_cores,
          .threads = p.threads,
          .host_views = p.host_views,
          .host_page_bytes = p.host_page_bytes,
          .memory_bytes = p.memory_bytes,
          .memory_in_use = p.memory_in_use,
          .memory_committed = p.memory_committed,
          .costs = ToModelledCosts(p.costs),
          .rates = p.rates};
}

}  // namespace

WorkerImpl::WorkerImpl(WorkerOptions options, std::unique_ptr<device::Driver> driver)
    : options_(std::move(options)),
      log_(ParseLogLevel(options_.log_level)),
      driver_(std::make_unique<device::TracingDriver>(std::move(driver))),
      memory_(
          std::make_unique<device::DeviceMemory>(driver_.get(), options_.host_view_budget, &log_)),
      kernels_(driver_.get(), std::string(platforms::BaseName(options_.platform))),
      definitions_(driver_.get(),
                   {options_.max_definitions, options_.definition_budget, options_.variant_limit}),
      next_serial_(std::random_device()()) {
  device::Properties properties = driver_->properties();
  assumed_ = properties.assumed;
  contexts_.push_back(MakeContext());
  contexts_.back()->builder.WarmUp();
  log_.Info("worker on {}: {} cube and {} vector cores, {} bytes of memory, {} threads",
            properties.platform, properties.cube_cores, properties.vector_cores,
            properties.memory_bytes, properties.threads);
}

WorkerImpl::~WorkerImpl() {
  // Runs first: finishing one erases it from the set.
  for (;;) {
    RunState* run = nullptr;
    {
      std::lock_guard lock(mutex_);
      if (in_flight_.empty()) break;
      run = *in_flight_.begin();
    }
    run->Detach();
  }
  auto report = [this](const std::optional<Error>& error) {
    if (error) log_.Warn("closing the worker: {}", error->message());
  };
  ReleaseSettled();
  report(memory_->DropViews());
  for (auto& context : contexts_) report(context->ReleasePinned());
  for (Quarantined& entry : quarantined_) report(entry.context->ReleasePinned());
  for (auto& context : contexts_) report(context->ReleaseDevice());
  for (Quarantined& entry : quarantined_) {
    entry.context->builder.Release();
    entry.context->block = 0;  // the device may still write it
  }
  if (quarantined_.empty()) report(definitions_.Close());  // else they may still be executed
  if (!quarantined_.empty()) {                             // … and execute what is in them
    for (DynamicLibrary& library : libraries_) library.KeepOpen();
  }
  report(memory_->FreeAll());
  try {
    driver_->Reset();
  } catch (const Error& error) {
    report(error);
  }
}

std::unique_ptr<RunContext> WorkerImpl::MakeContext() {
  return std::make_unique<RunContext>(
      RunDevice{driver_.get(), memory_.get(), &kernels_, &definitions_, &next_serial_});
}

std::unique_ptr<RunContext> WorkerImpl::TakeContext() {
  {
    std::lock_guard lock(mutex_);
    ReleaseSettled();
    if (!contexts_.empty()) {
      std::unique_ptr<RunContext> context = std::move(contexts_.back());
      contexts_.pop_back();
      ++taken_;
      return context;
    }
  }
  auto context = MakeContext();
  std::lock_guard lock(mutex_);
  size_t all = contexts_.size() + quarantined_.size() + taken_ + 1;
  contexts_.reserve(all);
  quarantined_.reserve(all);
  ++taken_;
  return context;
}

void WorkerImpl::Return(RunState* run, std::unique_ptr<RunContext> context,
                        device::Ticket quarantined) noexcept {
  {
    std::lock_guard lock(mutex_);
    in_flight_.erase(run);
    --taken_;
    if (quarantined == 0) {
      contexts_.push_back(std::move(context));
      return;
    }
    quarantined_.push_back({std::move(context), quarantined});
  }
  try {
    log_.Warn("the device may still write the memory of launch {}: it is kept until that has ended",
              quarantined);
  } catch (const std::exception&) {
    // No memory for the message.
  }
}

/// Whether nothing of the launch goes on. mutex_ held.
bool WorkerImpl::Settled(Quarantined& entry) {
  try {
    if (!entry.collected) {
      if (!driver_->Wait(entry.ticket, std::chrono::nanoseconds(0))) return false;
      entry.collected = true;
      driver_->Collect(entry.ticket);
    }
  } catch (const Error&) {
    // Its run has collected it, or the device is lost.
  }
  return entry.collected && driver_->Settled(entry.ticket);
}

/// Frees what belonged to runs that the device has been done with since. mutex_ held.
void WorkerImpl::ReleaseSettled() {
  std::erase_if(quarantined_, [this](Quarantined& entry) { return Settled(entry); });
}

void WorkerImpl::CheckNotInKernel(const char* call) const {
  if (driver_->InKernel()) {
    Fail(ErrorCode::invalid_argument,
         "{} inside a kernel of the same worker (orchestrations and other threads may call it)",
         call);
  }
}

std::unique_ptr<RunState> WorkerImpl::Launch(const Orchestration& orchestration, ArgList args,
                                             const RunOptions& options, const Program* program,
                                             bool caller_waits) try {
  CheckNotLost();
  CheckNotInKernel(caller_waits ? "run" : "submit");
  if ((options.reverse_blocks || options.poison_outputs) && !options.oracle) {
    Fail(ErrorCode::invalid_argument, "reverse_blocks and poison_outputs need RunOptions::oracle");
  }
  if (program != nullptr) {
    CheckProgram(*program);
    CheckSignature(*program, args);
    std::lock_guard lock(mutex_);
    if (program->replayable && !loaded_.contains(program)) {
      Fail(ErrorCode::invalid_argument,
           "program '{}' is replayable, so a worker must load it before it runs it", program->name);
    }
  }
  RunParameters parameters;
  do {  // 0 marks what belongs to no run
    parameters.serial = next_serial_.fetch_add(1, std::memory_order_relaxed);
  } while (parameters.serial == 0);
  parameters.threads = options.threads.value_or(options_.threads);
  if (parameters.threads == 0) parameters.threads = driver_->properties().threads;
  CheckThreads(parameters.threads);
  parameters.heap = options.heap.value_or(options_.heap);
  parameters.kernel_timeout = options.kernel_timeout.value_or(options_.kernel_timeout);
  CheckTimeout(parameters.kernel_timeout);
  parameters.caller_waits = caller_waits;
  parameters.assumed = assumed_;
  parameters.trace = options.trace != nullptr ? options.trace : options_.trace;
  if (parameters.trace != nullptr) parameters.platform = options_.platform;
  parameters.worker = this;
  parameters.host_views = options.host_views.value_or(options_.host_views);
  parameters.upload = options.upload.value_or(options_.upload);
  if (inspector_) parameters.inspector = &inspector_;
  parameters.observer = observer_;
  parameters.options = options;
  driver_->Prepare({.threads = parameters.threads,
                    .kernel_timeout = parameters.kernel_timeout,
                    .caller_waits = caller_waits,
                    .oracle = options.oracle});
  auto run = std::make_unique<RunState>(this, parameters);
  run->set_context(TakeContext());
  if (!caller_waits) {
    std::lock_guard lock(mutex_);
    in_flight_.insert(run.get());
  }
  run->Launch(orchestration, args, program);
  return run;
} catch (const std::bad_alloc&) {
  Fail(ErrorCode::out_of_memory, "the host has no memory left for another run");
}

const Program& WorkerImpl::Load(const Program& program) {
  CheckDescriptor(program);
  {
    std::lock_guard lock(mutex_);
    loaded_.insert(&program);
  }
  return program;
}

const Program& WorkerImpl::Load(const std::string& path) {
  DynamicLibrary library(path);
  const uint32_t* abi = library.FindSymbol<const uint32_t*>("precast_program_abi");
  auto get = library.FindSymbol<const Program& (*)()>("precast_program");
  if (abi == nullptr || get == nullptr) {
    Fail(ErrorCode::bad_file, "'{}' is no precast program: it does not export '{}'", path,
         abi == nullptr ? "precast_program_abi" : "precast_program");
  }
  if (*abi != kProgramAbi) {
    Fail(ErrorCode::bad_file,
         "'{}' was built for program interface {}, this library has {}: build it again", path, *abi,
         kProgramAbi);
  }
  const Program& program = Load(get());
  std::lock_guard lock(mutex_);
  libraries_.push_back(std::move(library));
  return program;
}

template <typename Access>
void WorkerImpl::WithMemory(const char* call, const Tensor& tensor, std::optional<Bytes> bytes,
                            bool writes, Access&& access) try {
  CheckNotLost();
  CheckNotInKernel(call);
  if (!tensor.is_contiguous()) {
    Fail(ErrorCode::invalid_argument, "{}: {} is not contiguous", call, tensor.ToString());
  }
  device::Claimed claimed = memory_->Claim(tensor);
  struct Claim {
    device::DeviceMemory& memory;
    uint32_t index;
    ~Claim() { memory.Release(index); }
  } claim{*memory_, claimed.index};
  uint64_t extent = tensor.extent_bytes();
  if (bytes && *bytes != extent) {
    Fail(ErrorCode::out_of_range, "{}: {} bytes on the host for {} ({} bytes needed)", call, *bytes,
         tensor.ToString(), extent);
  }
  auto last = [&] {
    return writes ? memory_->LastUse(claimed.index) : memory_->LastWrite(claimed.index);
  };
  auto await_last = [&] {
    device::Ticket ticket = last();
    if (ticket != 0) driver_->Wait(ticket, std::chrono::nanoseconds::max());
    return ticket;
  };
  // Launches go on meanwhile. One that uses the tensor means another wait; should they never end,
  // they have to let this call go first.
  constexpr int kPatience = 8;
  for (int waits = 1;; ++waits) {
    device::Ticket awaited = await_last();
    std::lock_guard lock(launch_mutex_);
    if (last() != awaited) {
      if (waits < kPatience) continue;
      await_last();
    }
    access(claimed.address + TensorAccess::Offset(tensor), extent);
    return;
  }
} catch (const Error& error) {
  NoteLoss(error);
  throw;
}

Tensor WorkerImpl::Malloc(const Shape& shape, DType dtype) try {
  CheckNotLost();
  try {
    return memory_->Malloc(shape, dtype);
  } catch (const Error& error) {
    // Definitions that no run uses make room.
    if (error.code() != ErrorCode::out_of_memory || definitions_.Trim(true) == 0) throw;
  }
  return memory_->Malloc(shape, dtype);
} catch (const Error& error) {
  NoteLoss(error);
  throw;
}

void WorkerImpl::Free(const Tensor& tensor) try {
  {
    std::lock_guard lock(mutex_);
    ReleaseSettled();  // which may have pinned it
  }
  memory_->Free(tensor);
} catch (const Error& error) {
  NoteLoss(error);
  throw;
}

void WorkerImpl::CopyTo(const Tensor& device, const void* source, Bytes bytes) {
  if (source == nullptr) Fail(ErrorCode::invalid_argument, "copy_to from a null pointer");
  WithMemory("copy_to", device, bytes, true, [&](device::Address address, Bytes extent) {
    driver_->CopyToDevice(address, source, extent);
  });
}

void WorkerImpl::CopyFrom(void* target, const Tensor& device, Bytes bytes) {
  if (target == nullptr) Fail(ErrorCode::invalid_argument, "copy_from to a null pointer");
  WithMemory("copy_from", device, bytes, false, [&](device::Address address, Bytes extent) {
    driver_->CopyToHost(target, address, extent);
  });
}

void WorkerImpl::Memset(const Tensor& device, uint8_t value) {
  WithMemory("memset", device, {}, true,
             [&](device::Address address, Bytes extent) { driver_->Fill(address, value, extent); });
}

WorkerProperties WorkerImpl::properties() {
  {
    std::lock_guard lock(mutex_);
    ReleaseSettled();
  }
  WorkerProperties properties = ToWorkerProperties(driver_->properties());
  if (options_.threads > 0) properties.threads = options_.threads;
  return properties;
}

}  // namespace detail

using detail::RunState;
using detail::WorkerImpl;

// RunHandle.

RunHandle::RunHandle() = default;
RunHandle::RunHandle(std::unique_ptr<RunState> state) : state_(std::move(state)) {}
RunHandle::RunHandle(RunHandle&&) noexcept = default;
RunHandle& RunHandle::operator=(RunHandle&&) noexcept = default;
RunHandle::~RunHandle() = default;

namespace {

RunState& StateOf(const std::unique_ptr<RunState>& state) {
  if (!state) Fail(ErrorCode::invalid_argument, "a run handle that holds no run");
  return *state;
}

}  // namespace

bool RunHandle::done() { return StateOf(state_).Wait(std::chrono::nanoseconds(0)); }
bool RunHandle::wait(std::chrono::nanoseconds timeout) { return StateOf(state_).Wait(timeout); }
void RunHandle::wait() { StateOf(state_).Wait(std::chrono::nanoseconds::max()); }
const RunReport& RunHandle::result() { return StateOf(state_).Result(); }

// Worker.

Worker::Worker(WorkerOptions options) {
  if (options.threads != 0) detail::CheckThreads(options.threads);
  auto driver = platforms::MakeDriver(options.platform, options.threads);
  impl_ = std::make_unique<WorkerImpl>(std::move(options), std::move(driver));
}
Worker::Worker(std::unique_ptr<WorkerImpl> impl) : impl_(std::move(impl)) {}
Worker::~Worker() {
  // Threads and device are those of the process that made it, which goes on with them.
  if (!impl_->process.here()) [[maybe_unused]]
    WorkerImpl* left = impl_.release();
}

WorkerImpl& Worker::impl() const {
  impl_->process.Check("a worker");
  return *impl_;
}

Tensor Worker::malloc(const Shape& shape, DType dtype) { return impl().Malloc(shape, dtype); }

void Worker::free(const Tensor& tensor) { impl().Free(tensor); }

void Worker::copy_to(const Tensor& device, const void* source, Bytes bytes) {
  impl().CopyTo(device, source, bytes);
}

void Worker::copy_from(void* target, const Tensor& device, Bytes bytes) {
  impl().CopyFrom(target, device, bytes);
}

void Worker::memset(const Tensor& device, uint8_t value) { impl().Memset(device, value); }

uint64_t Worker::address(const Tensor& device) const { return impl().memory().Of(device); }

Tensor Worker::tensor_at(uint64_t address, const Shape& shape, DType dtype) const {
  return impl().memory().TensorAt(address, shape, dtype);
}

const Program& Worker::load(const Program& program) { return impl().Load(program); }
const Program& Worker::load(const std::string& path) { return impl().Load(path); }

RunReport Worker::run(const Orchestration& orchestration, ArgList args, const RunOptions& options) {
  return impl().Launch(orchestration, args, options, nullptr, true)->Result();
}
RunReport Worker::run(const Program& program, ArgList args, const RunOptions& options) {
  return impl().Launch(program.orchestration, args, options, &program, true)->Result();
}
RunHandle Worker::submit(const Orchestration& orchestration, ArgList args,
                         const RunOptions& options) {
  return RunHandle(impl().Launch(orchestration, args, options, nullptr, false));
}
RunHandle Worker::submit(const Program& program, ArgList args, const RunOptions& options) {
  return RunHandle(impl().Launch(program.orchestration, args, options, &program, false));
}

WorkerProperties Worker::properties() const { return impl().properties(); }

std::vector<PlatformInfo> Platforms() {
  std::vector<PlatformInfo> platforms;
  for (const platforms::Entry& entry : platforms::List()) {
    platforms.push_back(
        {entry.name, entry.summary, entry.options, detail::ToWorkerProperties(entry.properties)});
  }
  return platforms;
}

std::string_view Version() { return PRECAST_VERSION; }

}  // namespace precast
