// OpenMP: tasks with `depend`, which infers the order from addresses. Tasks start while others are
// still created, so only the time of everything can be told.
#include "contender.h"

namespace precast::bench {

namespace {

class OpenMpContender final : public Contender {
 public:
  explicit OpenMpContender(int threads) : threads_(threads) {}
  std::string_view name() const override { return "openmp"; }

  std::optional<Sample> Run(const Workload& w, const Setting& setting) override {
    if (setting.suite != Suite::run) return {};
    if (tensors_.size() < w.tasks + kExternal) tensors_.resize(w.tasks + kExternal);
    Clock::time_point begin = Clock::now();
    CreateTasks(w, setting.work);
    return Sample{NsSince(begin), 0};
  }

 private:
  void CreateTasks(const Workload& w, uint32_t work) {
    char* t = tensors_.data();
#pragma omp parallel num_threads(threads_)
#pragma omp single
    for (uint32_t i = 0; i < w.tasks; ++i) {
      std::span<const uint32_t> r = w.ReadsOf(i);
      uint32_t target = kExternal + (w.side == 0 ? i : w.cell[i]);
      if (r.size() == 2) {
#pragma omp task depend(in : t[r[0]], t[r[1]]) depend(out : t[target]) firstprivate(work)
        Work(work);
      } else if (r.size() == 3) {
#pragma omp task depend(in : t[r[0]], t[r[1]], t[r[2]]) depend(out : t[target]) firstprivate(work)
        Work(work);
      } else {
#pragma omp task depend(in : t[r[0]], t[r[1]], t[r[2]], t[r[3]]) depend(out : t[target]) \
    firstprivate(work)
        Work(work);
      }
    }
  }

  int threads_;
  std::vector<char> tensors_;
};

}  // namespace

std::unique_ptr<Contender> MakeOpenMp(int threads) {
  return std::make_unique<OpenMpContender>(threads);
}

}  // namespace precast::bench
