#include "worker/probe.h"

#include "platforms/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

namespace precast {
namespace {

using Json = nlohmann::ordered_json;
using device::Address;
using device::Driver;

constexpr uint64_t kKiB = 1024, kMiB = 1024 * kKiB;
constexpr uint64_t kSizes[] = {64,       4 * kKiB,  64 * kKiB, 256 * kKiB,
                               4 * kMiB, 16 * kMiB, 256 * kMiB};
constexpr uint64_t kBindSizes[] = {1 * kKiB, 256 * kKiB};
constexpr uint64_t kCopySizes[] = {4, 8, 64};
constexpr uint64_t kHugePageBytes = 2 * kMiB;
constexpr int kRotation = 4;     // allocations, so that no call finds what the last one left warm
constexpr double kLowFloor = 1;  // microseconds; rebuilding is worth another look from here on

/// One call on both clocks, in microseconds.
struct Sample {
  double us[2];  // by clock
};
enum ClockIndex { kWall, kModelled };

template <typename Call>
Sample Time(Driver& driver, Call&& call) {
  uint64_t modelled = driver.ModelledPicoseconds();
  auto begin = std::chrono::steady_clock::now();
  call();
  auto end = std::chrono::steady_clock::now();
  return {{std::chrono::duration<double, std::micro>(end - begin).count(),
           static_cast<double>(driver.ModelledPicoseconds() - modelled) / 1e6}};
}

/// Adds median and minimum of the samples, or nulls when there are none.
void Put(Json& json, const std::string& name, const std::vector<Sample>& samples, int clock) {
  std::vector<double> us;
  for (const Sample& sample : samples) us.push_back(sample.us[clock]);
  auto middle = us.begin() + static_cast<std::ptrdiff_t>(us.size() / 2);
  if (!us.empty()) std::nth_element(us.begin(), middle, us.end());
  json[name + "us"] = us.empty() ? Json() : Json(*middle);
  json[name + "min_us"] = us.empty() ? Json() : Json(*std::ranges::min_element(us));
}

/// The same calls as two documents, one for each clock.
struct Both {
  Json clock[2];
};

void MeasureView(Driver& driver, uint64_t bytes, int iterations, Both* lists) {
  Address allocations[kRotation];
  for (Address& allocation : allocations) allocation = driver.Allocate(bytes);
  std::vector<Sample> enter, leave, pair;
  for (int i = 0; i < iterations; ++i) {
    void* view = nullptr;
    Sample in =
        Time(driver, [&] { view = driver.RegisterHostView(allocations[i % kRotation], bytes); });
    if (view == nullptr) break;
    Sample out = Time(driver, [&] { driver.UnregisterHostView(allocations[i % kRotation], view); });
    enter.push_back(in);
    leave.push_back(out);
    pair.push_back({{in.us[kWall] + out.us[kWall], in.us[kModelled] + out.us[kModelled]}});
  }
  for (int clock : {kWall, kModelled}) {
    Json view = {{"bytes", bytes}};
    Put(view, "register_", enter, clock);
    Put(view, "unregister_", leave, clock);
    Put(view, "pair_", pair, clock);
    lists->clock[clock].push_back(std::move(view));
  }
  for (Address allocation : allocations) driver.Free(allocation);
}

template <typename Call>
void MeasureCopy(Driver& driver, uint64_t bytes, int iterations, Both* lists, Call&& call) {
  std::vector<Sample> samples;
  for (int i = 0; i < iterations; ++i) samples.push_back(Time(driver, call));
  for (int clock : {kWall, kModelled}) {
    Json copy = {{"bytes", bytes}};
    Put(copy, "", samples, clock);
    lists->clock[clock].push_back(std::move(copy));
  }
}

/// Floor and slope of pairs against pages, by least squares of relative errors, so that small sizes
/// count as much as large ones.
Json FitPairs(const Json& views, uint64_t page, bool huge) {
  double n = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (const Json& view : views) {
    auto bytes = view["bytes"].get<uint64_t>();
    if (view["pair_us"].is_null() || (bytes >= kHugePageBytes) != huge) continue;
    double pair = view["pair_us"], weight = 1 / std::max(pair * pair, 1e-12);
    auto pages = static_cast<double>((bytes + page - 1) / page);
    n += weight;
    x += weight * pages;
    y += weight * pair;
    xx += weight * pages * pages;
    xy += weight * pages * pair;
  }
  double determinant = n * xx - x * x;
  if (!(determinant > 0)) return {};
  double slope = (n * xy - x * y) / determinant;
  return {{"floor_us", (y - slope * x) / n}, {"page_us", slope}};
}

void AddBreakEven(Json& views, double copy_us) {
  for (Json& view : views) {
    const Json& pair = view["pair_us"];
    view["accesses_to_break_even"] =
        pair.is_null() || copy_us <= 0
            ? Json()
            : Json(static_cast<uint64_t>(pair.get<double>() / copy_us) + 1);
  }
}

void Judge(Json& clock, double budget_us) {
  Json& bind = clock["bind"];
  double copy_us = clock["device_copy"][0]["us"], rebuild_us = 0;
  AddBreakEven(clock["host_view"], copy_us);
  AddBreakEven(bind["tensors"], copy_us);
  bool bind_maps = true;
  for (const Json& view : bind["tensors"]) {
    bind_maps = bind_maps && !view["pair_us"].is_null();
    if (bind_maps) rebuild_us += view["pair_us"].get<double>();
  }
  rebuild_us = std::round(rebuild_us * 1e6) / 1e6;  // whole picoseconds
  bind["rebuild_us"] = bind_maps ? Json(rebuild_us) : Json();
  bind["budget_us"] = budget_us;
  auto mapped = std::ranges::count_if(clock["host_view"],
                                      [](const Json& view) { return !view["pair_us"].is_null(); });
  std::string verdict = "copy", reason;
  if (mapped == 0) {
    reason = fmt::format(
        "nothing maps here, so each access is a copy of {:.3g} us: read ranges, or keep what is "
        "read often on the host. A platform that maps would change that",
        copy_us);
  } else if (!bind_maps) {
    reason = fmt::format(
        "{} of {} sizes map, but not those of the bind: what is too small is copied at {:.3g} us "
        "an access, larger allocations keep their views. Smaller host pages would change that",
        mapped, std::size(kSizes), copy_us);
  } else if (rebuild_us <= budget_us) {
    verdict = "rebuild";
    reason = fmt::format(
        "mapping both tensors anew in every run takes {:.3g} us, within the budget of {:.3g} us. A "
        "budget under that would make it cache",
        rebuild_us, budget_us);
  } else {
    verdict = "cache";
    double floor = clock["fit"]["ordinary_pages"]["floor_us"];
    reason = fmt::format(
        "mapping both tensors anew in every run takes {:.3g} us, the budget is {:.3g} us. {}",
        rebuild_us, budget_us,
        floor <= kLowFloor
            ? fmt::format("The floor of a pair is down to {:.3g} us: reconsider rebuild", floor)
            : fmt::format("A pair's floor of about {:.3g} us (now {:.3g}) would be a reason to "
                          "reconsider rebuild",
                          kLowFloor, floor));
  }
  clock["verdict"] = verdict;
  clock["reason"] = reason;
}

}  // namespace

Json Probe(Driver& driver, const ProbeOptions& options) {
  Both views, bind_views, copies, allocations;
  for (uint64_t bytes : kSizes) MeasureView(driver, bytes, options.iterations, &views);
  for (uint64_t bytes : kBindSizes) MeasureView(driver, bytes, options.iterations, &bind_views);
  for (uint64_t bytes : kCopySizes) {
    std::vector<char> host(bytes);
    Address source = driver.Allocate(bytes);
    driver.Fill(source, 0, bytes);
    MeasureCopy(driver, bytes, options.copy_iterations, &copies,
                [&] { driver.CopyToHost(host.data(), source, bytes); });
    driver.Free(source);
    std::vector<Address> kept;
    MeasureCopy(driver, bytes, options.iterations, &allocations, [&] {
      kept.push_back(driver.Allocate(bytes));
      driver.CopyToDevice(kept.back(), host.data(), bytes);
    });
    for (Address address : kept) driver.Free(address);
  }
  device::Properties properties = driver.properties();
  Json result;
  for (int clock : {kWall, kModelled}) {
    Json& json = result[clock == kWall ? "wall" : "modelled"];
    if (clock == kModelled && properties.costs.empty()) continue;
    json["host_view"] = views.clock[clock];
    json["device_copy"] = copies.clock[clock];
    json["allocate_and_copy"] = allocations.clock[clock];
    json["fit"] = {
        {"ordinary_pages", FitPairs(json["host_view"], properties.host_page_bytes, false)},
        {"huge_pages", FitPairs(json["host_view"], kHugePageBytes, true)}};
    json["bind"]["tensors"] = bind_views.clock[clock];
    Judge(json, options.budget_us);
  }
  return result;
}

Json ProbePlatform(const std::string& platform, const ProbeOptions& options) {
  Json result = {{"platform", platform}};
  result.update(Probe(*platforms::MakeDriver(platform, 1), options));
  return result;
}

}  // namespace precast
