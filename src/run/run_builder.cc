#include "run/run_builder.h"

#include "base/current_error.h"
#include "base/tensor_access.h"
#include "run/fill_kernel.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

namespace precast::detail {

using graph::Builder;

namespace {

/// What `report_fatal` throws; the failure is also noted, so catching it does not undo it.
struct ReportedFatal {};

bool Writes(Direction direction) {
  return direction == Direction::out || direction == Direction::inout;
}

}  // namespace

RunBuilder::RunBuilder(const RunDevice& device, RunBuilder* outer)
    : device_(device),
      orchestrator_(this),
      access_(device.driver, device.memory, &graph_, &host_, &orchestrator_.windows_),
      outer_(outer) {
  body_image_.grow = [this](graph::ImageMemory& self, uint64_t bytes, uint64_t) {
    body_memory_.resize(std::max<size_t>(bytes / sizeof(uint64_t) + 1, body_memory_.size() * 2));
    self.data = reinterpret_cast<char*>(body_memory_.data());
    self.capacity = body_memory_.size() * sizeof(uint64_t);
  };
  graph_.set_subject(outer_ == nullptr ? "run" : "graph");
  graph_.set_import([this](const Tensor& tensor) -> Tensor {
    if (outer_ != nullptr) FailForeign(tensor);
    return access_.Import(tensor, false);
  });
  graph_.set_kernel_name([this](const graph::TaskSpec& spec) {
    if (spec.mix != nullptr) {
      std::string names = device_.kernels->Name(spec.mix->kernel[0]);
      for (uint32_t i = 1; i < spec.mix->kernels; ++i) {
        names += " + " + device_.kernels->Name(spec.mix->kernel[i]);
      }
      return names;
    }
    return spec.kernel == abi::kNoKernel ? std::string(kNoKernel.name)
                                         : device_.kernels->Name(spec.kernel);
  });
}

// Arguments.

void RunBuilder::Begin(graph::ImageMemory* image, uint32_t serial, uint64_t heap_budget,
                       ArgList args, const Program* program, HostViewPolicy host_views,
                       bool verify_replays) {
  graph_.Begin(image, serial, heap_budget);
  program_ = program;
  fatal_.reset();
  access_.Begin(host_views);
  host_.Clear();
  args_.tensors_.clear();
  args_.scalars_.clear();
  args_.serial_ = serial;
  figures_ = {};
  warnings_.clear();
  verify_replays_ = verify_replays;
#ifdef PRECAST_VALIDATE
  verify_replays_ = true;
#endif
  ImportArguments(args);
}

void RunBuilder::ImportArguments(ArgList args) {
  for (uint32_t i = 0; i < args.size(); ++i) {
    const Arg& arg = args[i];
    if (arg.is_scalar()) continue;
    if (arg.direction() == Direction::no_dep) {
      Fail(ErrorCode::mismatch,
           "argument {} of the run is 'no_dep' ('in', 'out', 'inout' and scalars are allowed)", i);
    }
    const Tensor& tensor = arg.tensor();
    if (tensor.kind() == Tensor::Kind::host) {
      host_.Add(tensor, arg.direction(), i);
    } else if (tensor.kind() == Tensor::Kind::none) {
      Fail(ErrorCode::invalid_argument, "argument {} of the run names nothing", i);
    } else if (tensor.kind() == Tensor::Kind::run) {
      Fail(ErrorCode::stale,
           "argument {} of the run ({}) is a tensor of another run; pass host or device tensors", i,
           tensor.ToString());
    }
  }
  host_.MakeSpans(graph_);
  size_t next_host = 0;
  for (uint32_t i = 0; i < args.size(); ++i) {
    const Arg& arg = args[i];
    if (arg.is_scalar()) {
      args_.scalars_.push_back({arg.bits(), arg.dtype()});
      continue;
    }
    const Tensor& tensor = arg.tensor();
    bool read_only = !Writes(arg.direction());
    if (tensor.kind() == Tensor::Kind::device) {
      try {
        args_.tensors_.push_back(access_.Import(tensor, read_only));
      } catch (const Error& error) {
        throw Error(error.code(), fmt::format("argument {} of the run: {}", i, error.message()),
                    error.location());
      }
    } else {
      const run::HostArguments::Span& span = host_.spans()[host_.arguments()[next_host++].span];
      uint64_t offset = static_cast<uint64_t>(TensorAccess::HostData(tensor) - span.begin);
      if (offset % SizeOf(tensor.dtype()) != 0) {
        Fail(ErrorCode::invalid_argument,
             "argument {} of the run ({}) begins {} bytes into memory that it shares with another "
             "argument: not a multiple of its {} byte elements",
             i, tensor.ToString(), offset, SizeOf(tensor.dtype()));
      }
      args_.tensors_.push_back(graph_.MakeTensor(tensor, span.buffer, offset, read_only));
    }
    graph_.Intern(args_.tensors_.back());
  }
}

void RunBuilder::Inspect(bool inspected) {
  if (!inspected) {
    log_.reset();
  } else if (log_ == nullptr) {
    log_ = std::make_unique<graph::BuildLog>();
  }
  graph_.set_log(log_.get());
}

int RunBuilder::ArgumentOf(uint32_t buffer) const {
  auto same = [buffer](const Tensor& tensor) { return TensorAccess::Buffer(tensor) == buffer; };
  auto found = std::find_if(args_.tensors_.begin(), args_.tensors_.end(), same);
  return found == args_.tensors_.end() ? -1 : static_cast<int>(found - args_.tensors_.begin());
}

void RunBuilder::Release() {
  access_.Release();
  EndGraphs();
}

// The orchestration.

void RunBuilder::Orchestrate(const Orchestration& orchestration) {
  if (!orchestration) Fail(ErrorCode::invalid_argument, "the run has no orchestration");
  struct Open {
    RunBuilder& builder;
    explicit Open(RunBuilder& opened) : builder(opened) { builder.open_ = true; }
    ~Open() {
      builder.open_ = false;
      builder.args_.serial_ = 0;
      builder.access_.EndBind();
    }
  } open(*this);
  uint32_t scope = graph_.OpenScope();
  try {
    orchestration(orchestrator_, args_);
  } catch (const ReportedFatal&) {
  } catch (const std::bad_alloc&) {
    if (!fatal_) {
      Fail(ErrorCode::out_of_memory, "the host ran out of memory during {}", Caller());
    }
  } catch (const Error& error) {
    if (!fatal_) {
      throw error.code() != ErrorCode::usage ? error
                                             : Error(ErrorCode::orchestration, error.message());
    }
  } catch (...) {
    if (!fatal_) throw CurrentError(ErrorCode::orchestration, fmt::format("{} threw: ", Caller()));
  }
  if (fatal_) throw Error(*fatal_);
  if (!graph_.CloseScope(scope)) {
    Fail(ErrorCode::orchestration, "{} returned with a scope still open", Caller());
  }
  if (graph_.statistics().tasks == 0 && !access_.changed()) {
    Fail(ErrorCode::orchestration, "{} submitted no task (at least 1 needed)", Caller());
  }
}

const char* RunBuilder::Caller() const {
  return outer_ == nullptr ? "the orchestration" : "its body";
}

void RunBuilder::FailForeign(const Tensor& tensor) const {
  Fail(ErrorCode::mismatch,
       "{} is not on the boundary of graph '{}': pass it to submit_graph as an argument",
       tensor.ToString(), graph_name_);
}

void RunBuilder::FailClosed() const {
  if (recording_) {
    Fail(
        ErrorCode::invalid_argument,
        "the body of graph '{}' uses an orchestrator that is not its own; it must use the one that "
        "it was given",
        body_->graph_name_);
  }
  Fail(ErrorCode::stale, "the orchestrator was used after {} had returned", Caller());
}

void RunBuilder::ReportFatal(int code, std::string_view message) {
  CheckOpen();
  if (!fatal_) {
    fatal_.emplace(ErrorCode::fatal,
                   fmt::format("{} reported fatal error {}: {}", Caller(), code, message));
  }
  throw ReportedFatal();
}

// Tasks.

uint32_t RunBuilder::FindKernel(const Kernel& kernel) {
  if (kernel.function == nullptr && kernel.name != nullptr &&
      std::string_view(kernel.name) == kNoKernel.name) {
    return abi::kNoKernel;
  }
  if (program_ != nullptr && kernel.function != run::kFill.function) {
    auto same = [&](const Kernel& k) { return k.function == kernel.function; };
    if (std::none_of(program_->kernels.begin(), program_->kernels.end(), same)) {
      std::string names;
      for (const Kernel& k : program_->kernels) names += fmt::format(" {}", k.name);
      Fail(ErrorCode::not_found, "kernel '{}' is none of the kernels of program '{}':{}",
           kernel.name, program_->name, names);
    }
  }
  CachedKernel& cached = CacheFor(kernel);
  if (cached.function != kernel.function || cached.name != kernel.name) {
    cached = {kernel.function, kernel.name, device_.kernels->Index(kernel), 0};
  }
  cached.serial = graph_.serial();
  return cached.index;
}

inline Task RunBuilder::Append(graph::TaskSpec& spec, ArgList args, const SubmitOptions& options) {
  spec.blocks = options.blocks;
  if (!options.name.empty() || options.after.size() > 0 || options.when.get() != nullptr)
      [[unlikely]] {
    SetOptions(spec, options.name, options.after, options.when);
  }
  return Task(graph_.Submit(spec, args), graph_.serial());
}

void RunBuilder::SetOptions(graph::TaskSpec& spec, std::string_view name, TaskList after,
                            PredicateRef when) {
  spec.name = name;
  after_.clear();
  for (const Task& task : after) {
    if (task.serial_ != graph_.serial() || !graph_.IsTask(task.id_)) {
      Fail(ErrorCode::stale, "{}: after: entry {} {}", graph_.Prefix(spec), after_.size(),
           task.serial_ == 0
               ? std::string("is a default-constructed Task")
               : fmt::format("is a task of another run or graph (serial {}, this {} is {})",
                             task.serial_, graph_.subject(), graph_.serial()));
    }
    after_.push_back(task.id_);
  }
  spec.after = after_;
  if (const Predicate* predicate = when.get()) {
    spec.predicate = &predicate->element;
    spec.compare = predicate->compare;
    spec.constant = predicate->constant;
  }
}

Task RunBuilder::Submit(const Kernel& kernel, ArgList args, const SubmitOptions& options) {
  CheckOpen();
  graph::TaskSpec spec;
  spec.kernel = KernelIndex(kernel);
  return Append(spec, args, options);
}

Task RunBuilder::Submit(const MixedKernel& kernel, ArgList args, const SubmitOptions& options) {
  CheckOpen();
  abi::Mix mix{};
  auto add = [&](const Kernel& part, Core core) {
    if (part.name == nullptr || part.core != core) {
      Fail(ErrorCode::mismatch,
           "kernel {} of a mixed task is {} (one cube kernel, then one or two vector kernels)",
           mix.kernels,
           part.name == nullptr      ? std::string("missing")
           : part.core == Core::cube ? fmt::format("'{}', a cube kernel", part.name)
                                     : fmt::format("'{}', a vector kernel", part.name));
    }
    if (part.function == nullptr) {
      Fail(ErrorCode::invalid_argument, "kernel {} of a mixed task, '{}', has no function",
           mix.kernels, part.name);
    }
    mix.kernel[mix.kernels++] = KernelIndex(part);
  };
  add(kernel.cube, Core::cube);
  add(kernel.vector0, Core::vector);
  if (kernel.vector1.name != nullptr) add(kernel.vector1, Core::vector);
  graph::TaskSpec spec;
  spec.mix = &mix;
  return Append(spec, args, options);
}

Tensor RunBuilder::Alloc(const Shape& shape, DType dtype) {
  CheckOpen();
  return graph_.Alloc(shape, dtype);
}

Tensor RunBuilder::Alloc(const Shape& shape, DType dtype, double fill) {
  uint64_t bits = run::FillBits(dtype, fill);
  Tensor tensor = Alloc(shape, dtype);
  Submit(run::kFill, {out(tensor), bits}, {.name = "fill"});
  return tensor;
}

uint32_t RunBuilder::OpenScope() {
  CheckOpen();
  return graph_.OpenScope();
}

void RunBuilder::CloseScope(uint32_t depth) {
  // Runs in a destructor, maybe while an exception passes, so a misuse is noted, not thrown.
  if (!open_ || recording_ || fatal_) return;
  // While an exception passes, scopes may end in any order, and it is what the caller wants to
  // know.
  if (!graph_.CloseScope(depth) && std::uncaught_exceptions() == 0) {
    fatal_.emplace(ErrorCode::orchestration,
                   fmt::format("scope {} ended before a scope that was opened inside it", depth));
  }
}

// Host access.

void RunBuilder::Get(const Tensor& tensor, std::span<const int64_t> index, DType dtype,
                     void* values, int64_t count) {
  CheckOpen();
  if (outer_ != nullptr && tensor.kind() == Tensor::Kind::device) FailForeign(tensor);
  access_.Get(tensor, index, dtype, values, count);
}

void RunBuilder::Set(const Tensor& tensor, std::span<const int64_t> index, DType dtype,
                     const void* values, int64_t count) {
  CheckOpen();
  access_.Set(tensor, index, dtype, values, count);
}

}  // namespace precast::detail

namespace precast {

Predicate when(const Tensor& tensor, std::initializer_list<int64_t> index, Compare compare,
               int64_t constant) {
  if (index.size() != static_cast<size_t>(tensor.rank())) {
    Fail(ErrorCode::out_of_range, "when: {} indices for {} of rank {}", index.size(),
         tensor.ToString(), tensor.rank());
  }
  Tensor element = tensor;
  for (int64_t i : index) element = element.select(0, i);
  return {element, compare, constant};
}

void Args::FailTensor(size_t i) const {
  Fail(ErrorCode::out_of_range, "tensor argument {} of {}", i, tensors_.size());
}

uint64_t Args::ScalarBits(size_t i, DType dtype) const {
  CheckScalar(i, dtype);
  scalars_[i].looked_at = true;
  return scalars_[i].bits;
}

void Args::CheckSerial(uint32_t serial) const {
  if (serial != serial_) {
    Fail(ErrorCode::stale, "a boundary scalar of another run or recording (serial {}, now {})",
         serial, serial_);
  }
}

void Args::CheckScalar(size_t i, DType dtype) const {
  if (i >= scalars_.size()) {
    Fail(ErrorCode::out_of_range, "scalar argument {} of {}", i, scalars_.size());
  }
  if (serial_ == 0) {
    Fail(ErrorCode::stale,
         "scalar argument {} of a run or graph that is not the one being built; pass it to "
         "submit_graph",
         i);
  }
  if (scalars_[i].dtype != dtype) {
    Fail(ErrorCode::mismatch, "scalar argument {} asked for as {}, it was passed as {}", i,
         Name(dtype), Name(scalars_[i].dtype));
  }
}

Scope::~Scope() { builder_->CloseScope(depth_); }

Task Orchestrator::submit(const Kernel& kernel, ArgList args, const SubmitOptions& options) {
  return builder_->Submit(kernel, args, options);
}
Task Orchestrator::submit(const MixedKernel& kernel, ArgList args, const SubmitOptions& options) {
  return builder_->Submit(kernel, args, options);
}
Task Orchestrator::SubmitGraph(GraphKey key, const detail::GraphBody& body, std::string_view params,
                               ArgList args, const GraphOptions& options) {
  return builder_->SubmitGraph(key, body, params, args, options);
}
Tensor Orchestrator::alloc(const Shape& shape, DType dtype) {
  return builder_->Alloc(shape, dtype);
}
Tensor Orchestrator::alloc(const Shape& shape, DType dtype, double fill) {
  return builder_->Alloc(shape, dtype, fill);
}
Scope Orchestrator::scope() { return Scope(builder_, builder_->OpenScope()); }
void Orchestrator::report_fatal(int code, std::string_view message) {
  builder_->ReportFatal(code, message);
}
void Orchestrator::Get(const Tensor& tensor, std::span<const int64_t> index, DType dtype,
                       void* values, int64_t count) {
  builder_->Get(tensor, index, dtype, values, count);
}
void Orchestrator::Set(const Tensor& tensor, std::span<const int64_t> index, DType dtype,
                       const void* values, int64_t count) {
  builder_->Set(tensor, index, dtype, values, count);
}

}  // namespace precast
