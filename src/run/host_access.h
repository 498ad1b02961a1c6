// HostAccess: child memory in one run: which allocations it uses, and get_tensor_data and
// set_tensor_data on them and on host arguments.
//
// Used by RunBuilder. A first get of a buffer finds out where its bytes are: in the caller's
// memory, behind a host view, or behind a driver call for each access. What is found goes into the
// builder's windows, where `Orchestrator::get_tensor_data` finds it again without a call
// (ReadWindows). A window is closed by a task that may write the buffer, and all are by the launch
// of a run that writes child memory, so whatever a window shows needs no look at tasks or runs.
// Rejected: one cached view for the last tensor (1,000 tensors in random order then miss every
// time).
//
// Threads: the thread of the orchestration; Close and Release on the thread that ends the run.
#pragma once

#include "device/device_memory.h"
#include "device/driver.h"
#include "graph/builder.h"
#include "run/host_arguments.h"

#include <precast/orchestrator.h>
#include <precast/report.h>
#include <precast/worker.h>

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace precast::run {

class HostAccess {
 public:
  /// Requires: all of them outlive this.
  HostAccess(device::Driver* driver, device::DeviceMemory* memory, graph::Builder* graph,
             HostArguments* host, detail::ReadWindows* windows);

  /// A new run. Requires: `graph` has begun.
  void Begin(HostViewPolicy policy);
  /// In the body of a graph: how bytes of a boundary tensor's buffer are read. They must not be
  /// written.
  using ReadOuter = std::function<void(uint32_t buffer, uint64_t offset, DType dtype, void* values,
                                       int64_t count)>;
  void set_read_outer(ReadOuter read) { read_outer_ = std::move(read); }

  /// Claims a device tensor's allocation, once a run; gives the tensor as one of the run.
  Tensor Import(const Tensor& device, bool read_only);

  void Get(const Tensor& tensor, std::span<const int64_t> index, DType dtype, void* values,
           int64_t count);
  void Set(const Tensor& tensor, std::span<const int64_t> index, DType dtype, const void* values,
           int64_t count);

  /// The orchestration has returned: views may be dropped now, unless the policy rebuilds them.
  void EndBind();
  /// The last phase of a run: drops what the policy says, and reports.
  void Close(RunReport* report);
  /// Lets go of all views and claims. Idempotent.
  void Release() noexcept;

  /// An allocation that this run uses.
  struct Use {
    uint32_t allocation;
    uint32_t buffer;
    device::Address address;
    uint64_t bytes;
    char* view = nullptr;  // of its first byte; null: copies, or not accessed yet
    bool accessed = false;
  };
  std::span<const Use> uses() const { return uses_; }
  /// Whether set_tensor_data changed child memory, and which ranges, for messages.
  bool changed() const { return !changed_.empty(); }
  std::string ChangedRanges() const;

 private:
  struct Range {  // of elements that get or set is about
    const char* call;
    Tensor tensor;  // as given, of this run
    std::span<const int64_t> index;
    uint32_t buffer;
    uint64_t offset;  // in the buffer
    uint64_t bytes;
  };
  Range Locate(const char* call, const Tensor& tensor, std::span<const int64_t> index, DType dtype,
               int64_t count);
  Tensor ImportFor(const char* call, const Tensor& device, std::span<const int64_t> index);
  /// What Builder's queries take: the elements themselves.
  Tensor Part(const Range& range);
  /// `task`, if any, is the subject of `why`.
  [[noreturn]] void FailAccess(const Range& range, std::string_view why, abi::TaskId task = 0,
                               ErrorCode code = ErrorCode::not_ready);

  Use& UseOf(uint32_t buffer) { return uses_[use_of_buffer_[buffer] - 1]; }
  /// The host address of the allocation's first byte, or null: copy.
  char* ViewOf(Use& use);
  void CountCopy(uint64_t bytes);
  void WaitFor(device::Ticket ticket);
  /// Forgets windows that a launched run may have made wrong.
  void Refresh();
  void OpenWindow(uint32_t buffer, const char* bytes);
  /// Ends the use of all views; true in `drop` drops those that nobody else uses.
  void ReleaseViews(bool drop);

  device::Driver* const driver_;
  device::DeviceMemory* const memory_;
  graph::Builder* const graph_;
  HostArguments* const host_;
  detail::ReadWindows* const windows_;
  ReadOuter read_outer_;

  HostViewPolicy policy_ = HostViewPolicy::cache;
  RunReport::HostViews figures_;
  uint64_t over_budget_ = 0, over_budget_bytes_ = 0;  // allocations; bytes of the largest
  std::vector<Use> uses_;
  std::vector<uint32_t> use_of_buffer_;  // buffer -> index + 1 into uses_
  struct Imported {
    uint32_t serial = 0;
    uint32_t use = 0;
  };
  std::vector<Imported> imported_;  // by allocation index
  struct Changed {
    uint32_t allocation;
    uint64_t begin, end;
  };
  std::vector<Changed> changed_;
  // A single element of each dtype, its layout interned for this run.
  std::array<Tensor, 16> elements_;
  std::optional<Error> drop_failure_;
};

}  // namespace precast::run
