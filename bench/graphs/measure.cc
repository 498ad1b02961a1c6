#include "measure.h"

#include <fmt/format.h>

#include <chrono>
#include <fstream>
#include <thread>

namespace precast::bench {

double TimeFixedLoop() {
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin = Clock::now();
  uint64_t x = 1;
  for (int i = 0; i < 150'000; ++i) {
    x *= 0x9e3779b97f4a7c15;
    asm volatile("" : "+r"(x));
  }
  return std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
}

std::string MachineName() {
  std::string model = "unknown processor";
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) {
      model = line.substr(colon + 2);
      break;
    }
  }
  return fmt::format("{}, {} processors", model, std::thread::hardware_concurrency());
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

Summary Summarize(const Row& row, double fastest_loop) {
  std::vector<double> fast;
  for (size_t i = 0; i < row.ns.size(); ++i) {
    if (row.loops[i] <= 1.15 * fastest_loop) fast.push_back(row.ns[i]);
  }
  bool is_fast = fast.size() * 2 >= row.ns.size();
  const std::vector<double>& used = is_fast ? fast : row.ns;
  return {Median(used), *std::min_element(used.begin(), used.end()), is_fast};
}

}  // namespace precast::bench
