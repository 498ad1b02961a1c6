// StarPU: CPU workers, implicit dependencies from data handles, which are registered beforehand.
#include "contender.h"

#include <malloc.h>
#include <starpu.h>

#include <stdexcept>

namespace precast::bench {

namespace {

void Body(void* /*buffers*/[], void* argument) {
  Work(static_cast<uint32_t>(reinterpret_cast<uintptr_t>(argument)));
}

class StarPuContender final : public Contender {
 public:
  explicit StarPuContender(int threads) {
    starpu_conf conf;
    starpu_conf_init(&conf);
    conf.ncpus = threads;
    conf.ncuda = 0;
    conf.nopencl = 0;
    if (starpu_init(&conf) != 0) throw std::runtime_error("starpu_init failed");
    for (int reads = 2; reads <= 4; ++reads) {
      starpu_codelet& codelet = codelets_[reads];
      starpu_codelet_init(&codelet);
      codelet.cpu_funcs[0] = Body;
      codelet.nbuffers = reads + 1;
      for (int i = 0; i < reads; ++i) codelet.modes[i] = STARPU_R;
      codelet.modes[reads] = STARPU_W;
    }
    starpu_pause();  // its workers would spin while others are measured
  }
  ~StarPuContender() override {
    starpu_resume();
    for (starpu_data_handle_t handle : handles_) starpu_data_unregister(handle);
    starpu_shutdown();
  }
  std::string_view name() const override { return "starpu"; }

  std::optional<Sample> Run(const Workload& w, const Setting& setting) override {
    while (handles_.size() < w.tasks + kExternal) {
      starpu_void_data_register(&handles_.emplace_back());
    }
    for (uint32_t i = 0; i < kExternal; ++i) Write(handles_[i]);
    if (w.side != 0) {  // in random order tiles are read before a task wrote them
      for (uint32_t i = 0; i < w.tasks; ++i) Write(handles_[kExternal + i]);
    }
    Sample sample;
    if (setting.suite == Suite::run) starpu_resume();
    size_t before = mallinfo2().uordblks;
    Clock::time_point begin = Clock::now();
    for (uint32_t i = 0; i < w.tasks; ++i) Submit(w, i, setting.work);
    if (setting.suite == Suite::submit) {
      sample.ns = NsSince(begin);
      sample.bytes = static_cast<double>(mallinfo2().uordblks - before);
    }
    if (setting.suite != Suite::run) starpu_resume();
    if (setting.suite == Suite::execute) begin = Clock::now();
    starpu_task_wait_for_all();
    if (setting.suite != Suite::submit) sample.ns = NsSince(begin);
    starpu_pause();
    return sample;
  }

 private:
  void Write(starpu_data_handle_t handle) {
    starpu_data_acquire(handle, STARPU_W);
    starpu_data_release(handle);
  }

  void Submit(const Workload& w, uint32_t i, uint32_t work) {
    std::span<const uint32_t> reads = w.ReadsOf(i);
    starpu_task* task = starpu_task_create();
    task->cl = &codelets_[reads.size()];
    task->cl_arg = reinterpret_cast<void*>(static_cast<uintptr_t>(work));
    for (size_t r = 0; r < reads.size(); ++r) task->handles[r] = handles_[reads[r]];
    task->handles[reads.size()] = handles_[kExternal + (w.side == 0 ? i : w.cell[i])];
    if (starpu_task_submit(task) != 0) throw std::runtime_error("starpu_task_submit failed");
  }

  starpu_codelet codelets_[5];
  std::vector<starpu_data_handle_t> handles_;
};

}  // namespace

std::unique_ptr<Contender> MakeStarPu(int threads) {
  return std::make_unique<StarPuContender>(threads);
}

}  // namespace precast::bench
