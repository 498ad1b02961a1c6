#include "device/probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

namespace precast::device {
namespace {

constexpr uint64_t kKiB = 1024, kMiB = 1024 * kKiB;
constexpr uint64_t kSizes[] = {64,       4 * kKiB,  64 * kKiB, 256 * kKiB,
                               4 * kMiB, 16 * kMiB, 256 * kMiB};
constexpr uint64_t kBindSizes[] = {1 * kKiB, 256 * kKiB};
constexpr uint64_t kCopySizes[] = {4, 8, 64};
constexpr uint64_t kHugePageBytes = 2 * kMiB;
constexpr int kRotation = 4;     // allocations, so that no call finds what the last one left warm
constexpr double kLowFloor = 1;  // microseconds; rebuilding is worth another look from here on

/// Allocations that are freed at the end.
class Allocations {
 public:
  Allocations(Driver& driver, uint64_t bytes, int count) : driver_(driver) {
    try {
      for (int i = 0; i < count; ++i) addresses_.push_back(driver_.Allocate(bytes));
    } catch (const Error&) {
      FreeAll();
      throw;
    }
  }
  ~Allocations() { FreeAll(); }
  Allocations(const Allocations&) = delete;
  Allocations& operator=(const Allocations&) = delete;
  Address operator[](int i) const { return addresses_[static_cast<size_t>(i) % addresses_.size()]; }

 private:
  void FreeAll() {
    for (Address address : addresses_) {
      try {
        driver_.Free(address);
      } catch (const Error&) {
        // The probe has failed for a reason of its own, or its numbers are in.
      }
    }
  }
  Driver& driver_;
  std::vector<Address> addresses_;
};

struct Both {
  double wall = 0, modelled = 0;
  Both operator+(const Both& other) const { return {wall + other.wall, modelled + other.modelled}; }
};

using Samples = std::vector<Both>;

template <typename Call>
Both Time(Driver& driver, Call&& call) {
  uint64_t modelled = driver.ModelledPicoseconds();
  auto begin = std::chrono::steady_clock::now();
  call();
  auto end = std::chrono::steady_clock::now();
  return {std::chrono::duration<double, std::micro>(end - begin).count(),
          static_cast<double>(driver.ModelledPicoseconds() - modelled) / 1e6};
}

Sampled Sample(const Samples& samples, double Both::*clock) {
  std::vector<double> values;
  for (const Both& sample : samples) values.push_back(sample.*clock);
  auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return {*std::min_element(values.begin(), values.end()), *middle};
}

/// Adds the same measurement to the results of both clocks.
class Results {
 public:
  ProbeClock wall, modelled;

  template <typename Add>
  void ForEach(Add&& add) {
    add(wall, &Both::wall);
    add(modelled, &Both::modelled);
  }
};

void MeasureView(Driver& driver, uint64_t bytes, int iterations,
                 std::vector<ProbeClock::View> ProbeClock::*list, Results* results) {
  Allocations allocations(driver, bytes, kRotation);
  Samples enter, leave, pair;
  for (int i = 0; i < iterations; ++i) {
    void* view = nullptr;
    Both in = Time(driver, [&] { view = driver.RegisterHostView(allocations[i], bytes); });
    if (view == nullptr) break;
    Both out = Time(driver, [&] { driver.UnregisterHostView(allocations[i], view); });
    enter.push_back(in);
    leave.push_back(out);
    pair.push_back(in + out);
  }
  results->ForEach([&](ProbeClock& clock, double Both::*which) {
    ProbeClock::View view{.bytes = bytes, .maps = !pair.empty()};
    if (view.maps) {
      view.enter = Sample(enter, which);
      view.leave = Sample(leave, which);
      view.pair = Sample(pair, which);
    }
    (clock.*list).push_back(view);
  });
}

void MeasureCopy(Driver& driver, uint64_t bytes, int iterations, Results* results) {
  Allocations allocations(driver, bytes, 1);
  std::vector<char> host(bytes);
  driver.CopyToDevice(allocations[0], host.data(), bytes);
  Samples copies;
  for (int i = 0; i < iterations; ++i) {
    copies.push_back(Time(driver, [&] { driver.CopyToHost(host.data(), allocations[0], bytes); }));
  }
  results->ForEach([&](ProbeClock& clock, double Both::*which) {
    clock.copies.push_back({bytes, Sample(copies, which)});
  });
}

void MeasureAllocation(Driver& driver, uint64_t bytes, int iterations, Results* results) {
  std::vector<char> host(bytes);
  Samples pairs;
  for (int i = 0; i < iterations; ++i) {
    Address address = 0;
    pairs.push_back(Time(driver, [&] {
      address = driver.Allocate(bytes);
      driver.CopyToDevice(address, host.data(), bytes);
    }));
    driver.Free(address);
  }
  results->ForEach([&](ProbeClock& clock, double Both::*which) {
    clock.allocations.push_back({bytes, Sample(pairs, which)});
  });
}

/// Least squares of relative errors, so that small sizes count as much as large ones.
std::optional<ProbeClock::Fit> FitPairs(const std::vector<ProbeClock::View>& views, uint64_t page,
                                        bool huge) {
  double n = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (const ProbeClock::View& view : views) {
    if (!view.maps || (view.bytes >= kHugePageBytes) != huge || view.pair.median <= 0) continue;
    double pages = static_cast<double>((view.bytes + page - 1) / page);
    double weight = 1 / (view.pair.median * view.pair.median);
    n += weight;
    x += weight * pages;
    y += weight * view.pair.median;
    xx += weight * pages * pages;
    xy += weight * pages * view.pair.median;
  }
  double determinant = n * xx - x * x;
  if (determinant <= 0) return {};
  double slope = (n * xy - x * y) / determinant;
  return ProbeClock::Fit{(y - slope * x) / n, slope};
}

void Judge(const ProbeOptions& options, ProbeClock* clock) {
  double copy = clock->copies.front().us.median;
  auto break_even = [copy](std::vector<ProbeClock::View>& views) {
    for (ProbeClock::View& view : views) {
      if (!view.maps || copy <= 0) continue;
      view.accesses_to_break_even = static_cast<uint64_t>(view.pair.median / copy) + 1;
    }
  };
  break_even(clock->views);
  break_even(clock->bind_views);
  auto maps = [](const ProbeClock::View& view) { return view.maps; };
  if (std::ranges::all_of(clock->bind_views, maps)) {
    clock->rebuild_us = 0;
    for (const ProbeClock::View& view : clock->bind_views) *clock->rebuild_us += view.pair.median;
    *clock->rebuild_us = std::round(*clock->rebuild_us * 1e6) / 1e6;  // whole picoseconds
  }
  double floor = clock->ordinary ? clock->ordinary->floor_us : 0;
  auto mapped = std::ranges::count_if(clock->views, maps);
  if (mapped == 0) {
    clock->verdict = "copy";
    clock->reason = fmt::format(
        "nothing maps here, so each access is a copy of {:.3g} us: read ranges, or keep what is "
        "read often on the host. A platform that maps would change that",
        copy);
  } else if (!clock->rebuild_us) {
    clock->verdict = "copy";
    clock->reason = fmt::format(
        "{} of {} sizes map, but not those of the bind: what is too small is copied at {:.3g} us "
        "an access, larger allocations keep their views. Smaller host pages would change that",
        mapped, clock->views.size(), copy);
  } else if (*clock->rebuild_us <= options.budget_us) {
    clock->verdict = "rebuild";
    clock->reason = fmt::format(
        "mapping both tensors anew in every run takes {:.3g} us, within the budget of {:.3g} us. A "
        "budget under that would make it cache",
        *clock->rebuild_us, options.budget_us);
  } else {
    clock->verdict = "cache";
    clock->reason = fmt::format(
        "mapping both tensors anew in every run takes {:.3g} us, the budget is {:.3g} us. {}",
        *clock->rebuild_us, options.budget_us,
        floor <= kLowFloor
            ? fmt::format("The floor of a pair is down to {:.3g} us: reconsider rebuild", floor)
            : fmt::format("A pair's floor of about {:.3g} us (now {:.3g}) would be a reason to "
                          "reconsider rebuild",
                          kLowFloor, floor));
  }
}

}  // namespace

ProbeResult Probe(Driver& driver, const ProbeOptions& options) {
  Results results;
  for (uint64_t bytes : kSizes) {
    MeasureView(driver, bytes, options.iterations, &ProbeClock::views, &results);
  }
  for (uint64_t bytes : kBindSizes) {
    MeasureView(driver, bytes, options.iterations, &ProbeClock::bind_views, &results);
  }
  for (uint64_t bytes : kCopySizes) {
    MeasureCopy(driver, bytes, options.copy_iterations, &results);
    MeasureAllocation(driver, bytes, options.iterations, &results);
  }
  Properties properties = driver.properties();
  results.ForEach([&](ProbeClock& clock, double Both::*) {
    clock.ordinary = FitPairs(clock.views, properties.host_page_bytes, false);
    clock.huge = FitPairs(clock.views, kHugePageBytes, true);
    Judge(options, &clock);
  });
  ProbeResult result{.wall = std::move(results.wall), .modelled = {}};
  if (!properties.costs.empty()) result.modelled = std::move(results.modelled);
  return result;
}

}  // namespace precast::device
