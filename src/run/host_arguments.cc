#include "run/host_arguments.h"

#include "base/planted_fault.h"
#include "base/tensor_access.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <new>
#include <utility>

namespace precast::run {

using precast::detail::TensorAccess;

namespace {

constexpr uint64_t kStagingAlignment = 256;

bool Writes(Direction direction) {
  return direction == Direction::out || direction == Direction::inout;
}

/// Copies the elements of a strided view that lies at the same place in two buffers.
void CopyElements(const Tensor& view, const char* source, char* target) {
  size_t element = SizeOf(view.dtype());
  int rank = view.rank();
  // The innermost axis is copied in one piece when its elements are adjacent.
  bool dense = rank > 0 && view.stride(rank - 1) == 1;
  int64_t inner = dense ? view.shape(rank - 1) : 1;
  int64_t outer = view.size() / inner;
  int outer_rank = dense ? rank - 1 : rank;
  for (int64_t i = 0; i < outer; ++i) {
    int64_t rest = i, offset = 0;
    for (int axis = outer_rank - 1; axis >= 0; --axis) {
      offset += rest % view.shape(axis) * view.stride(axis);
      rest /= view.shape(axis);
    }
    size_t at = static_cast<size_t>(offset) * element;
    std::memcpy(target + at, source + at, static_cast<size_t>(inner) * element);
  }
}

}  // namespace

void HostArguments::Clear() {
  arguments_.clear();
  spans_.clear();
}

void HostArguments::Add(const Tensor& tensor, Direction direction, uint32_t index) {
  arguments_.push_back({tensor, direction, 0, index});
}

void HostArguments::MakeSpans(graph::Builder& graph) {
  order_.resize(arguments_.size());
  for (uint32_t i = 0; i < order_.size(); ++i) order_[i] = i;
  std::sort(order_.begin(), order_.end(), [&](uint32_t a, uint32_t b) {
    return std::less<>()(TensorAccess::HostData(arguments_[a].tensor),
                         TensorAccess::HostData(arguments_[b].tensor));
  });
  const Argument* first_of_span = nullptr;
  const Argument* writer = nullptr;  // in the current span
  for (uint32_t i : order_) {
    Argument& argument = arguments_[i];
    char* begin = TensorAccess::HostData(argument.tensor);
    uint64_t bytes = argument.tensor.extent_bytes();
    bool writes = Writes(argument.direction);
    Span* last = spans_.empty() ? nullptr : &spans_.back();
    if (last != nullptr && begin < last->begin + last->bytes) {
      if (writes || writer != nullptr) {
        const Argument& other = writer != nullptr ? *writer : *first_of_span;
        Fail(ErrorCode::invalid_argument,
             "arguments {} and {} of the run overlap in host memory and {} is written ('{}'); "
             "only arguments that are all 'in' may share memory",
             std::min(other.index, argument.index), std::max(other.index, argument.index),
             writes ? argument.index : other.index,
             Name(writes ? argument.direction : other.direction));
      }
      last->bytes =
          std::max<uint64_t>(last->bytes, static_cast<uint64_t>(begin - last->begin) + bytes);
    } else {
      Span& span = spans_.emplace_back();
      span.begin = begin;
      span.bytes = bytes;
      span.write_only = argument.direction == Direction::out;
      first_of_span = &argument;
      writer = writes ? &argument : nullptr;
    }
    argument.span = static_cast<uint32_t>(spans_.size() - 1);
  }
  for (Span& span : spans_) {
    span.slot = graph.AddSlot();
    span.buffer = graph.AddBuffer(graph::Builder::BufferKind::host, span.slot, 0, span.bytes,
                                  span.write_only);
  }
}

HostArguments::Span& HostArguments::SpanOf(uint32_t buffer) {
  return *std::find_if(spans_.begin(), spans_.end(),
                       [buffer](const Span& span) { return span.buffer == buffer; });
}

void HostArguments::MakePrivate(Span& span) {
  if (span.copy) return;
  span.copy.reset(new (std::nothrow) char[span.bytes]);
  if (!span.copy) {
    Fail(ErrorCode::out_of_memory, "no host memory for a private copy of {} bytes of an argument",
         span.bytes);
  }
  std::memcpy(span.copy.get(), span.begin, span.bytes);
}

uint64_t HostArguments::Place() {
  uint64_t end = 0;
  for (Span& span : spans_) {
    span.device_offset = end;
    end += (span.bytes + kStagingAlignment - 1) / kStagingAlignment * kStagingAlignment;
  }
  return end;
}

std::pair<uint64_t, uint64_t> HostArguments::StageIn(device::Driver& driver,
                                                     device::Address staging,
                                                     const graph::Builder& graph) {
  uint64_t copies = 0, bytes = 0;
  for (Span& span : spans_) {
    const graph::Buffer& buffer = graph.buffer(span.buffer);
    // An `out` that tasks write completely, always, needs no bytes from the host.
    if (span.write_only && !buffer.is(graph::Buffer::kHasGaps) &&
        !buffer.is(graph::Buffer::kKeepsOldBytes) && !span.copy)
      continue;
    driver.CopyToDevice(staging + span.device_offset, span.bytes_now(), span.bytes);
    ++copies;
    bytes += span.bytes;
  }
  return {copies, bytes};
}

bool HostArguments::ComesBack(const Argument& argument, const graph::Builder& graph) const {
  const Span& span = spans_[argument.span];
  return Writes(argument.direction) &&
         (graph.buffer(span.buffer).is(graph::Buffer::kModified) || span.copy);
}

/// Says which arguments hold results already when copying one back failed.
void HostArguments::FailCopyBack(const Error& error, const Argument& failed, uint64_t copied,
                                 const graph::Builder& graph) const {
  std::string message =
      fmt::format("argument {} of the run was not copied back: {}", failed.index, error.message());
  if (copied > 0) {
    std::string before;
    for (const Argument& argument : arguments_) {
      if (&argument == &failed) break;
      if (ComesBack(argument, graph)) before += fmt::format(" {}", argument.index);
    }
    message += fmt::format("; these hold their results already:{}", before);
  }
  throw Error(error.code(), std::move(message), error.location());
}

std::pair<uint64_t, uint64_t> HostArguments::CopyBack(device::Driver& driver,
                                                      device::Address staging,
                                                      const graph::Builder& graph) {
  uint64_t copies = 0, bytes = 0;
  for (const Argument& argument : arguments_) {
    if (!ComesBack(argument, graph)) continue;
    Span& span = spans_[argument.span];  // which written arguments have to themselves
    device::Address source = staging + span.device_offset;
    try {
      if (argument.tensor.is_contiguous()) {
        driver.CopyToHost(span.begin, source, span.bytes);
      } else {
        // What lies between the elements is not the run's to write.
        scattered_.resize(span.bytes);
        driver.CopyToHost(scattered_.data(), source, span.bytes);
        if (PRECAST_PLANTED("host.gaps-overwritten")) {
          std::memcpy(span.begin, scattered_.data(), span.bytes);
        }
        CopyElements(argument.tensor, scattered_.data(), span.begin);
      }
    } catch (const Error& error) {
      FailCopyBack(error, argument, copies, graph);
    } catch (const std::bad_alloc&) {
      FailCopyBack(Error(ErrorCode::out_of_memory,
                         fmt::format("no host memory to copy {} bytes through", span.bytes)),
                   argument, copies, graph);
    }
    ++copies;
    bytes += span.bytes;
  }
  return {copies, bytes};
}

}  // namespace precast::run
