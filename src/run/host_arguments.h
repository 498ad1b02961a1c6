// HostArguments: the host tensors among a run's arguments: where their bytes are, on the host and
// in the run's staging area on the device, and which of them travel.
//
// Used by RunBuilder (get/set) and by the phases that copy. Arguments that share memory are merged
// into one *span*; that is allowed only while none of them is written. `set_tensor_data` writes a
// private copy of a span, so the caller's memory changes only in `copy_back`.
//
// Threads: one at a time.
#pragma once

#include "device/driver.h"
#include "graph/builder.h"

#include <precast/argument.h>

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace precast::run {

class HostArguments {
 public:
  struct Span {
    char* begin = nullptr;  // the caller's memory
    uint64_t bytes = 0;
    uint32_t buffer = 0;
    uint32_t slot = 0;
    uint64_t device_offset = 0;    // in the staging area
    bool write_only = false;       // a single `out` argument
    std::unique_ptr<char[]> copy;  // private bytes, once something was set
    const char* bytes_now() const { return copy ? copy.get() : begin; }
  };
  struct Argument {
    Tensor tensor;
    Direction direction;
    uint32_t span;
    uint32_t index;  // among all arguments of the run, for messages
  };

  void Clear();
  /// Notes an argument. Requires: a host tensor.
  void Add(const Tensor& tensor, Direction direction, uint32_t index);
  /// Merges what overlaps and makes a buffer of each span. Throws `invalid_argument` when arguments
  /// overlap and one of them is written.
  void MakeSpans(graph::Builder& graph);

  const std::vector<Argument>& arguments() const { return arguments_; }
  std::vector<Span>& spans() { return spans_; }
  /// The span of a buffer. Requires: the buffer is a host buffer.
  Span& SpanOf(uint32_t buffer);
  /// Gives the span its private copy.
  static void MakePrivate(Span& span);

  /// Assigns places in the staging area; gives its size.
  uint64_t Place();
  /// Copies what tasks may read, or leave as it is, to the device; gives (copies, bytes).
  std::pair<uint64_t, uint64_t> StageIn(device::Driver& driver, device::Address staging,
                                        const graph::Builder& graph);
  /// Copies results to the caller's memory; gives (copies, bytes). When a copy fails, the error
  /// names the arguments that hold results already; the one that failed may hold a part of them.
  std::pair<uint64_t, uint64_t> CopyBack(device::Driver& driver, device::Address staging,
                                         const graph::Builder& graph);

 private:
  bool ComesBack(const Argument& argument, const graph::Builder& graph) const;
  [[noreturn]] void FailCopyBack(const Error& error, const Argument& failed, uint64_t copied,
                                 const graph::Builder& graph) const;

  std::vector<Argument> arguments_;
  std::vector<Span> spans_;
  std::vector<uint32_t> order_;
  std::vector<char> scattered_;
};

}  // namespace precast::run
