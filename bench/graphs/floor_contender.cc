// The floor: writes as many bytes and touches as many cache lines as a graph of this size must,
// and decides nothing. Building writes each task's record and arguments, touches a line per tensor
// access, and stores an edge in each producer's record; executing visits the records in order.
#include "contender.h"

#include <cstring>

namespace precast::bench {

namespace {

struct alignas(64) Line {
  uint32_t word[16];
};
constexpr uint32_t kLinesPerTask = 2;  // the record, and its arguments

class FloorContender final : public Contender {
 public:
  std::string_view name() const override { return "floor"; }

  std::optional<Sample> Run(const Workload& w, const Setting& setting) override {
    if (setting.work != 0) return {};
    if (image_.size() < size_t{kLinesPerTask} * w.tasks) image_.resize(kLinesPerTask * w.tasks);
    if (state_.size() < w.tasks + kExternal) state_.resize(w.tasks + kExternal);
    Clock::time_point begin = Clock::now();
    if (setting.suite != Suite::execute) Build(w);
    if (setting.suite != Suite::submit) Execute(w);
    return Sample{NsSince(begin), static_cast<double>(sizeof(Line) * kLinesPerTask * w.tasks)};
  }

 private:
  void Build(const Workload& w) {
    for (uint32_t i = 0; i < w.tasks; ++i) {
      Line record{}, arguments{};
      record.word[0] = i;
      uint32_t argument = 0;
      for (uint32_t tensor : w.ReadsOf(i)) {
        state_[tensor].word[0] = i;
        arguments.word[argument++ & 15] = tensor;
      }
      state_[i + kExternal].word[0] = i;
      image_[kLinesPerTask * i] = record;
      image_[kLinesPerTask * i + 1] = arguments;
      for (uint32_t producer : w.ProducersOf(i)) image_[kLinesPerTask * producer].word[7] = i;
    }
  }

  void Execute(const Workload& w) {
    for (uint32_t i = 0; i < w.tasks; ++i) {
      Work(image_[kLinesPerTask * i + 1].word[15]);
      for (uint32_t producer : w.ProducersOf(i)) --image_[kLinesPerTask * producer].word[4];
    }
  }

  std::vector<Line> image_, state_;
};

}  // namespace

std::unique_ptr<Contender> MakeFloor() { return std::make_unique<FloorContender>(); }

}  // namespace precast::bench
