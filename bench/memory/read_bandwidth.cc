#include "memory/read_bandwidth.h"

#include "graphs/measure.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <latch>
#include <new>
#include <sys/mman.h>
#include <thread>

#if defined(__x86_64__)
#define PRECAST_BENCH_CLONES \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define PRECAST_BENCH_CLONES
#endif

namespace precast::bench {

namespace {

using Clock = std::chrono::steady_clock;
using Words = uint64_t __attribute__((vector_size(64), may_alias));

/// Requires: `bytes` is a multiple of 512, `data` of 64.
PRECAST_BENCH_CLONES
uint64_t Sum(const std::byte* data, size_t bytes) {
  const auto* words = reinterpret_cast<const Words*>(data);
  Words sum[8] = {};
  for (size_t i = 0; i < bytes / sizeof(Words); i += 8) {
    for (size_t lane = 0; lane < 8; ++lane) sum[lane] += words[i + lane];
  }
  for (size_t lane = 1; lane < 8; ++lane) sum[0] += sum[lane];
  uint64_t total = 0;
  for (size_t i = 0; i < sizeof(Words) / sizeof(uint64_t); ++i) total += sum[0][i];
  return total;
}

class Array {
 public:
  Array(size_t bytes, bool huge_pages) : bytes_(bytes) {
    constexpr int kAccess = PROT_READ | PROT_WRITE;
    void* mapped = mmap(nullptr, bytes, kAccess, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    data_ = static_cast<std::byte*>(mapped);
    madvise(data_, bytes, huge_pages ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);  // may be refused
    std::memset(data_, 1, bytes);
  }
  ~Array() { munmap(data_, bytes_); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  std::byte* data() const { return data_; }

 private:
  std::byte* data_;
  size_t bytes_;
};

/// GB/s of one pass by this many threads, from the first one's begin to the last one's end.
double ReadOnce(const std::byte* data, size_t bytes, int threads) {
  size_t part = bytes / static_cast<size_t>(threads) / 512 * 512;
  std::latch ready(threads);
  std::vector<Clock::time_point> begin(static_cast<size_t>(threads)), end(begin.size());
  {
    std::vector<std::jthread> readers;
    for (size_t i = 0; i < begin.size(); ++i) {
      readers.emplace_back([&, i] {
        ready.arrive_and_wait();
        begin[i] = Clock::now();
        uint64_t sum = Sum(data + i * part, part);
        asm volatile("" : : "r"(sum));
        end[i] = Clock::now();
      });
    }
  }
  Clock::duration time =
      *std::max_element(end.begin(), end.end()) - *std::min_element(begin.begin(), begin.end());
  double ns = std::chrono::duration<double, std::nano>(time).count();
  return static_cast<double>(part * begin.size()) / ns;
}

}  // namespace

std::vector<ReadBandwidth> MeasureReadBandwidth(size_t bytes, int threads, int repetitions) {
  bytes = std::max<size_t>(bytes / 512 * 512, 512 * static_cast<size_t>(threads));
  Array small(bytes, false), huge(bytes, true);
  std::vector<ReadBandwidth> rows;
  for (bool huge_pages : {false, true}) {
    rows.push_back({1, huge_pages, 0, 0});
    if (threads > 1) rows.push_back({threads, huge_pages, 0, 0});
  }
  std::vector<std::vector<double>> found(rows.size());
  for (int i = -1; i < repetitions; ++i) {  // one to warm up
    for (size_t row = 0; row < rows.size(); ++row) {
      const Array& array = rows[row].huge_pages ? huge : small;
      double speed = ReadOnce(array.data(), bytes, rows[row].threads);
      if (i >= 0) found[row].push_back(speed);
    }
  }
  for (size_t row = 0; row < rows.size(); ++row) {
    rows[row].gb_per_s = Median(found[row]);
    rows[row].max_gb_per_s = *std::max_element(found[row].begin(), found[row].end());
  }
  return rows;
}

}  // namespace precast::bench
