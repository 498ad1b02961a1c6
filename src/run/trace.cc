#include <precast/trace.h>

#include <algorithm>
#include <utility>

namespace precast {

namespace {

template <typename T>
uint32_t NumberIn(std::vector<T>& all, const T& one) {
  auto known = std::find(all.begin(), all.end(), one);
  if (known == all.end()) known = all.insert(known, one);
  return static_cast<uint32_t>(known - all.begin());
}

}  // namespace

uint32_t Trace::ThreadNumber() {
  std::lock_guard lock(mutex_);
  return NumberIn(threads_, std::this_thread::get_id());
}

uint32_t Trace::WorkerNumber(const void* worker) {
  std::lock_guard lock(mutex_);
  return NumberIn(workers_, worker);
}

void Trace::Add(RunTrace run) {
  std::lock_guard lock(mutex_);
  runs_.push_back(std::move(run));
}

void Trace::NoteLost() noexcept {
  std::lock_guard lock(mutex_);
  ++lost_runs_;
}

}  // namespace precast
