#include "device/host_trace.h"

#include "device/driver.h"

namespace precast::device {

thread_local HostTrace* HostTrace::current_ = nullptr;

uint32_t HostTrace::NameOf(std::string_view name) {
  auto known = numbers_.find(name);
  if (known == numbers_.end()) {
    known = numbers_.emplace(name, static_cast<uint32_t>(names_.size())).first;
    names_.emplace_back(name);
  }
  return known->second;
}

void HostTraceSpan::Begin(HostTrace::Kind kind, std::string_view name, uint64_t bytes) {
  event_.name = trace_->NameOf(name);
  event_.thread = trace_->thread();
  event_.kind = kind;
  event_.bytes = bytes;
  event_.modelled_ps = trace_->driver().ModelledPicoseconds();
  event_.begin_ns = trace_->Now();
}

void HostTraceSpan::End() {
  event_.end_ns = trace_->Now();
  event_.modelled_ps = trace_->driver().ModelledPicoseconds() - event_.modelled_ps;
  trace_->Add(event_);
}

}  // namespace precast::device
