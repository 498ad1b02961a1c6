#include "run/host_access.h"

#include "base/tensor_access.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <string_view>

namespace precast::run {

using detail::TensorAccess;
using graph::Builder;

namespace {

constexpr const char* kGet = "get_tensor_data";
constexpr const char* kSet = "set_tensor_data";

std::string Element(std::span<const int64_t> index) {
  return index.empty() ? "" : fmt::format("element [{}] of ", fmt::join(index, ", "));
}

}  // namespace

HostAccess::HostAccess(device::Driver* driver, device::DeviceMemory* memory, Builder* graph,
                       HostArguments* host, detail::ReadWindows* windows)
    : driver_(driver), memory_(memory), graph_(graph), host_(host), windows_(windows) {
  windows_->epoch = &memory_->write_epoch();
}

void HostAccess::Begin(HostViewPolicy policy) {
  policy_ = policy;
  figures_ = {};
  over_budget_ = over_budget_bytes_ = 0;
  drop_failure_.reset();
  changed_.clear();
  uses_.clear();
  use_of_buffer_.clear();
  *windows_ = {.serial = graph_->serial(),
               .epoch = windows_->epoch,
               .seen = windows_->epoch->load(std::memory_order_acquire)};
}

Tensor HostAccess::Import(const Tensor& tensor, bool read_only) {
  device::Claimed claimed = memory_->Claim(tensor);
  struct Pin {  // until uses_ has it
    device::DeviceMemory* memory;
    uint32_t index;
    ~Pin() {
      if (memory != nullptr) memory->Release(index);
    }
  } pin{memory_, claimed.index};
  if (claimed.index >= imported_.size()) imported_.resize(claimed.index + 1);
  Imported& known = imported_[claimed.index];
  if (known.serial != graph_->serial()) {  // else it is pinned already, and once a run is enough
    uint32_t slot = graph_->AddSlot();
    uint32_t buffer = graph_->AddBuffer(Builder::BufferKind::device, slot, 0, claimed.bytes, false);
    use_of_buffer_.resize(buffer + 1);
    uses_.push_back({claimed.index, buffer, claimed.address, claimed.bytes});
    pin.memory = nullptr;
    known = {graph_->serial(), static_cast<uint32_t>(uses_.size() - 1)};
    use_of_buffer_[buffer] = static_cast<uint32_t>(uses_.size());
  }
  return graph_->MakeTensor(tensor, uses_[known.use].buffer, TensorAccess::Offset(tensor),
                            read_only);
}

Tensor HostAccess::ImportFor(const char* call, const Tensor& tensor,
                             std::span<const int64_t> index) {
  try {
    return Import(tensor, false);
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}: {}{}, at byte {} of its allocation: {}; pass a live "
                                          "tensor of this worker",
                                          call, Element(index), tensor.ToString(),
                                          TensorAccess::Offset(tensor), error.message()));
  }
}

// Where the elements are.

HostAccess::Range HostAccess::Locate(const char* call, const Tensor& given,
                                     std::span<const int64_t> index, DType dtype, int64_t count) {
  Range range{
      .call = call,
      .tensor = given.kind() == Tensor::Kind::device ? ImportFor(call, given, index) : given,
      .index = index,
      .buffer = 0,
      .offset = 0,
      .bytes = 0};
  const Tensor& tensor = range.tensor;
  graph_->Check(tensor, call);
  if (tensor.dtype() != dtype) {
    Fail(ErrorCode::mismatch, "{}: {} accessed as {}", call, tensor.ToString(), Name(dtype));
  }
  range.buffer = TensorAccess::Buffer(tensor);
  range.offset = TensorAccess::Offset(tensor);
  if (index.data() == nullptr && count != 1) {
    if (!tensor.is_contiguous() || tensor.size() != count) {
      Fail(ErrorCode::out_of_range, "{}: {} values for {} ({} contiguous elements needed)", call,
           count, tensor.ToString(), tensor.size());
    }
    range.bytes = tensor.extent_bytes();
    return range;
  }
  if (index.size() != static_cast<size_t>(tensor.rank()) &&
      !(index.empty() && tensor.size() == 1)) {
    Fail(ErrorCode::out_of_range, "{}: {} indices for {} of rank {}", call, index.size(),
         tensor.ToString(), tensor.rank());
  }
  range.bytes = SizeOf(dtype);
  const uint32_t* extents = TensorAccess::Extents(tensor);
  const uint32_t* strides = TensorAccess::Strides(tensor);
  for (size_t axis = 0; axis < index.size(); ++axis) {
    if (static_cast<uint64_t>(index[axis]) >= extents[axis]) {
      Fail(ErrorCode::out_of_range, "{}: index {} on axis {} of {} (0 … {} allowed)", call,
           index[axis], axis, tensor.ToString(), extents[axis] - 1);
    }
    range.offset += static_cast<uint64_t>(index[axis]) * strides[axis] * range.bytes;
  }
  return range;
}

Tensor HostAccess::Part(const Range& range) {
  if (range.index.empty() && range.tensor.size() != 1) return range.tensor;
  auto dtype = static_cast<size_t>(range.tensor.dtype());
  Tensor& element = elements_[dtype];
  if (TensorAccess::Generation(element) != graph_->serial()) {
    element = TensorAccess::Make(Tensor::Kind::run, Shape(), range.tensor.dtype(), 0,
                                 graph_->serial(), 0);
    graph_->Intern(element);
  }
  Tensor part = element;
  TensorAccess::Move(&part, range.buffer, range.offset);
  return part;
}

void HostAccess::FailAccess(const Range& range, std::string_view why, abi::TaskId task,
                            ErrorCode code) {
  graph::Buffer::Kind kind = graph_->buffer(range.buffer).kind;
  std::string where;
  if (kind == Builder::BufferKind::device) {
    const Use& use = UseOf(range.buffer);
    where = fmt::format(" at device address {:#x}, byte {} of allocation {}",
                        use.address + range.offset, range.offset, use.allocation);
  } else if (kind == Builder::BufferKind::host) {
    where = fmt::format(" at host address {}, byte {} of its memory",
                        fmt::ptr(host_->SpanOf(range.buffer).begin + range.offset), range.offset);
  }
  Fail(code, "{}: {}{}{}: {}{}", range.call, Element(range.index), range.tensor.ToString(), where,
       task == 0 ? "" : graph_->Describe(task) + " ", why);
}

// Host views.

char* HostAccess::ViewOf(Use& use) {
  if (use.accessed) return use.view;
  if (policy_ != HostViewPolicy::copy) {
    using enum device::HostView::Is;
    device::HostView found = memory_->AcquireView(use.allocation);
    figures_.dropped += found.dropped;
    if (found.is == established) ++figures_.established;
    if (found.is == reused) ++figures_.reused;
    if (found.is == refused) ++figures_.refused;
    if (found.is == over_budget) {
      ++over_budget_;
      over_budget_bytes_ = std::max(over_budget_bytes_, use.bytes);
    }
    use.view = static_cast<char*>(found.data);
  }
  use.accessed = true;
  return use.view;
}

void HostAccess::CountCopy(uint64_t bytes) {
  ++figures_.devcopy;
  figures_.devcopy_bytes += bytes;
}

void HostAccess::WaitFor(device::Ticket ticket) {
  if (ticket != 0) driver_->Wait(ticket, std::chrono::nanoseconds::max());
}

void HostAccess::Refresh() {
  uint64_t epoch = windows_->epoch->load(std::memory_order_acquire);
  if (epoch == windows_->seen) return;
  graph_->CloseWindows();
  windows_->seen = epoch;
}

void HostAccess::OpenWindow(uint32_t buffer, const char* bytes) {
  graph_->OpenWindow(buffer, bytes);
  windows_->data = graph_->windows().data();
  windows_->count = static_cast<uint32_t>(graph_->windows().size());
}

void HostAccess::ReleaseViews(bool drop) {
  for (Use& use : uses_) {
    if (use.view == nullptr) continue;
    use.view = nullptr;
    try {
      if (memory_->ReleaseView(use.allocation, drop)) ++figures_.dropped;
    } catch (const Error& error) {
      drop_failure_ = error;
    }
  }
}

void HostAccess::EndBind() {
  *windows_ = {.epoch = windows_->epoch};
  if (policy_ != HostViewPolicy::rebuild) ReleaseViews(false);
}

void HostAccess::Close(RunReport* report) {
  ReleaseViews(policy_ == HostViewPolicy::rebuild);
  figures_.mapped_bytes = memory_->usage().mapped_bytes;
  report->host_views = figures_;
  if (over_budget_ > 0) {
    report->warnings.push_back(fmt::format(
        "no room within host_view_budget ({} bytes) for the host views of {} allocations, the "
        "largest of {} bytes: {} accesses were device copies",
        memory_->view_budget(), over_budget_, over_budget_bytes_, figures_.devcopy));
  }
  if (drop_failure_) {
    report->warnings.push_back("dropping a host view: " + drop_failure_->message());
  }
}

void HostAccess::Release() noexcept {
  *windows_ = {.epoch = windows_->epoch};
  ReleaseViews(policy_ == HostViewPolicy::rebuild);
  for (const Use& use : uses_) memory_->Release(use.allocation);
  uses_.clear();
}

// Access.

void HostAccess::Get(const Tensor& tensor, std::span<const int64_t> index, DType dtype,
                     void* values, int64_t count) {
  Refresh();
  Range range = Locate(kGet, tensor, index, dtype, count);
  const graph::Buffer& buffer = graph_->buffer(range.buffer);
  if (buffer.kind == Builder::BufferKind::created) {
    FailAccess(range,
               fmt::format("it lives in the graph heap of this {}; no value exists before the run "
                           "executes. Have a task write it to an argument, and read that in a "
                           "later run",
                           graph_->subject()));
  }
  if (buffer.is(graph::Buffer::kModified)) {
    if (abi::TaskId writer = graph_->FindWriter(Part(range))) {
      FailAccess(range,
                 fmt::format("of this {} writes it and has not run; read it before that submit, or "
                             "in a later run",
                             graph_->subject()),
                 writer);
    }
  }
  if (read_outer_) {
    if (buffer.is(graph::Buffer::kHasGaps)) {
      FailAccess(range, "an 'out' tensor of the graph has no value; declare it 'inout'");
    }
    read_outer_(range.buffer, range.offset, dtype, values, count);
    return;
  }
  const char* bytes;
  if (buffer.kind == Builder::BufferKind::host) {
    const HostArguments::Span& span = host_->SpanOf(range.buffer);
    if (span.write_only && !span.copy) {
      FailAccess(range, "an 'out' argument has no value; declare it 'inout'");
    }
    bytes = span.bytes_now();
  } else {
    Use& use = UseOf(range.buffer);
    WaitFor(memory_->LastWrite(use.allocation));
    bytes = ViewOf(use);
    if (bytes == nullptr) {
      driver_->CopyToHost(values, use.address + range.offset, range.bytes);
      CountCopy(range.bytes);
      return;
    }
  }
  OpenWindow(range.buffer, bytes);
  std::memcpy(values, bytes + range.offset, range.bytes);
}

void HostAccess::Set(const Tensor& tensor, std::span<const int64_t> index, DType dtype,
                     const void* values, int64_t count) {
  Range range = Locate(kSet, tensor, index, dtype, count);
  if (read_outer_) {
    FailAccess(range,
               "the body of a graph is not called again, so it must not write; do it outside");
  }
  const graph::Buffer& buffer = graph_->buffer(range.buffer);
  if (buffer.kind == Builder::BufferKind::created) {
    FailAccess(range,
               "it lives in the graph heap of this run; let a task write it, or give alloc a fill "
               "value");
  }
  if (abi::TaskId user = graph_->FindAccess(Part(range))) {
    FailAccess(
        range,
        "of this run uses it and has not run; write it before that submit, or in a later run",
        user);
  }
  if (buffer.kind == Builder::BufferKind::host) {
    HostArguments::Span& span = host_->SpanOf(range.buffer);
    HostArguments::MakePrivate(span);
    std::memcpy(span.copy.get() + range.offset, values, range.bytes);
    graph_->SetFilled(range.buffer);
    OpenWindow(range.buffer, span.copy.get());
    return;
  }
  if (Builder::IsReadOnly(range.tensor)) {
    FailAccess(range, "an 'in' argument in device memory; declare it 'inout'", 0,
               ErrorCode::mismatch);
  }
  Use& use = UseOf(range.buffer);
  WaitFor(memory_->LastUse(use.allocation));
  if (char* view = ViewOf(use)) {
    std::memcpy(view + range.offset, values, range.bytes);
  } else {
    driver_->CopyToDevice(use.address + range.offset, values, range.bytes);
    CountCopy(range.bytes);
  }
  if (!changed_.empty() && changed_.back().allocation == use.allocation &&
      changed_.back().end == range.offset) {
    changed_.back().end += range.bytes;
  } else {
    changed_.push_back({use.allocation, range.offset, range.offset + range.bytes});
  }
}

std::string HostAccess::ChangedRanges() const {
  std::string text;
  constexpr size_t kShown = 8;
  for (size_t i = 0; i < std::min(changed_.size(), kShown); ++i) {
    const Changed& changed = changed_[i];
    text += fmt::format("{}bytes {} … {} of allocation {}", i == 0 ? "" : ", ", changed.begin,
                        changed.end - 1, changed.allocation);
  }
  if (changed_.size() > kShown) text += fmt::format(" and {} more", changed_.size() - kShown);
  return text;
}

}  // namespace precast::run
