#include "platforms/sim/profile.h"

#include <precast/error.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <thread>
#include <unistd.h>
#include <vector>

namespace precast::sim {
namespace {

constexpr uint64_t kKiB = 1024, kMiB = 1024 * kKiB, kGiB = 1024 * kMiB;

// Fitted to what a2a3 chips were measured to take, within 5 % of every median. Copies to the host:
// the mean of three sizes; copies to the device: the smallest one seen.
constexpr CostTable kMeasured = {{
    {.call = "register", .floor = 1'475'000, .per_page = 157'000, .per_huge_page = 920'000},
    {.call = "unregister", .floor = 3'670'000, .per_page = 62'500, .per_huge_page = 12'900'000},
    {.call = "copy to host", .floor = 9'720'000, .per_byte = 50, .assumed = "per byte"},
    {.call = "copy to device", .floor = 9'000'000, .per_byte = 50, .assumed = "per byte"},
    {.call = "allocate", .floor = 8'000'000, .assumed = "all"},
    {.call = "free", .floor = 8'000'000, .assumed = "all"},
    {.call = "allocate pinned", .per_page = 900'000, .assumed = "all"},
    {.call = "launch", .floor = 5'000'000, .assumed = "all"},
}};

constexpr std::string_view kMeasuredBut =
    "allocate, free, allocate pinned, launch, and copies per byte";

constexpr CostTable AllAssumed(CostTable costs) {
  for (device::CallCost& cost : costs) cost.assumed = "all";
  return costs;
}
constexpr CostTable kAssumed = AllAssumed(kMeasured);
constexpr std::string_view kAllAssumed = "all, from a2a3 with 4 KiB host pages";

// From what is published of the chip: 1.6 TB/s of memory; cube cores of 4096 multiply-adds and
// vector cores of 64 f32 elements a cycle, at 1.85 GHz. What one core moves, and what a block's
// dispatch takes, are guesses.
constexpr ChipRates kRates = {.bandwidth = 1'600'000'000'000,
                              .core_bandwidth = 100'000'000'000,
                              .cube_operations = 15'155'200'000'000,
                              .vector_operations = 118'400'000'000,
                              .dispatch_ps = 1'000'000,
                              .assumed = "all"};

// What one value of an option makes of a profile.
struct Choice {
  std::string_view profile;
  std::string_view key;
  std::string_view value;
  uint64_t host_page_bytes;
  uint64_t host_view_minimum;
  const CostTable* costs;
  std::string_view assumed;
};

// A host with 64 KiB pages cannot map device memory in ordinary pages, which is what allocations
// under 2 MiB are made of.
constexpr Choice kChoices[] = {
    {"a2a3sim", "host_page", "4k", 4 * kKiB, 0, &kMeasured, kMeasuredBut},
    {"a2a3sim", "host_page", "64k", 64 * kKiB, 2 * kMiB, &kAssumed, kAllAssumed},
};

std::vector<std::string_view> Keys(const Profile& profile) {
  std::vector<std::string_view> keys;
  for (const Choice& choice : kChoices) {
    if (choice.profile == profile.name && std::ranges::find(keys, choice.key) == keys.end()) {
      keys.push_back(choice.key);
    }
  }
  return keys;
}

std::vector<std::string_view> Values(const Profile& profile, std::string_view key) {
  std::vector<std::string_view> values;
  for (const Choice& choice : kChoices) {
    if (choice.profile == profile.name && choice.key == key) values.push_back(choice.value);
  }
  return values;
}

void ApplyOption(std::string_view option, std::vector<std::string_view>* seen, Profile* profile) {
  size_t equals = option.find('=');
  std::string_view key = option.substr(0, equals);
  if (equals == std::string_view::npos) {
    Fail(ErrorCode::usage, "platform {}: option '{}' has no value; allowed: {}", profile->name,
         option, DescribeOptions(*profile));
  }
  std::vector<std::string_view> keys = Keys(*profile);
  if (std::ranges::find(keys, key) == keys.end()) {
    Fail(ErrorCode::usage, "platform {}: unknown option '{}'; allowed: {}", profile->name, key,
         fmt::join(keys, ", "));
  }
  if (std::ranges::find(*seen, key) != seen->end()) {
    Fail(ErrorCode::usage, "platform {}: option '{}' is given twice", profile->name, key);
  }
  seen->push_back(key);
  std::string_view value = option.substr(equals + 1);
  for (const Choice& choice : kChoices) {
    if (choice.profile == profile->name && choice.key == key && choice.value == value) {
      profile->host_page_bytes = choice.host_page_bytes;
      profile->host_view_minimum = choice.host_view_minimum;
      profile->costs = choice.costs;
      profile->assumed = choice.assumed;
      return;
    }
  }
  Fail(ErrorCode::usage, "platform {}: option '{}' is '{}'; allowed: {}", profile->name, key, value,
       fmt::join(Values(*profile, key), ", "));
}

}  // namespace

uint64_t Profile::Cost(Priced call, uint64_t bytes) const {
  if (costs == nullptr) return 0;
  const device::CallCost& cost = (*costs)[static_cast<size_t>(call)];
  bool huge = bytes >= kHugePageBytes && call != Priced::allocate_pinned;
  uint64_t page = huge ? kHugePageBytes : host_page_bytes;
  uint64_t pages = (bytes + page - 1) / page;
  return cost.floor + pages * (huge ? cost.per_huge_page : cost.per_page) + bytes * cost.per_byte;
}

Profile CpuProfile() {
  int processors = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  uint64_t memory = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * page;
  return {.name = "cpu",
          .summary = "this machine: its processors as cores, its memory as device memory",
          .cube_cores = processors,
          .vector_cores = processors,
          .memory_bytes = memory / (2 * kMiB) * (2 * kMiB),
          .host_page_bytes = page,
          .host_view_minimum = 0,
          .unified = true};
}

Profile A2a3Profile() {
  return {.name = "a2a3sim",
          .summary = "simulated a2a3 chip, host views allowed (memory size assumed)",
          .cube_cores = 24,
          .vector_cores = 48,
          .memory_bytes = 64 * kGiB,  // assumed
          .host_page_bytes = 4 * kKiB,
          .host_view_minimum = 0,
          .unified = false,
          .costs = &kMeasured,
          .assumed = kMeasuredBut,
          .rates = kRates};
}

Profile A5Profile() {
  return {.name = "a5sim",
          .summary = "simulated a5 chip, no host views (cores and memory size assumed)",
          .cube_cores = 32,            // assumed
          .vector_cores = 64,          // assumed
          .memory_bytes = 112 * kGiB,  // assumed
          .host_page_bytes = 4 * kKiB,
          .host_view_minimum = kNoHostViews,
          .unified = false,
          .costs = &kAssumed,
          .assumed = kAllAssumed,
          .rates = kRates};
}

void ApplyOptions(std::string_view options, Profile* profile) {
  if (Keys(*profile).empty()) {
    Fail(ErrorCode::usage, "platform {}: takes no options; found '{}'", profile->name, options);
  }
  Profile changed = *profile;
  std::vector<std::string_view> seen;
  while (true) {
    size_t comma = options.find(',');
    ApplyOption(options.substr(0, comma), &seen, &changed);
    if (comma == std::string_view::npos) break;
    options.remove_prefix(comma + 1);
  }
  *profile = std::move(changed);
}

std::string DescribeOptions(const Profile& profile) {
  std::vector<std::string> options;
  for (std::string_view key : Keys(profile)) {
    options.push_back(fmt::format("{}={}", key, fmt::join(Values(profile, key), "|")));
  }
  return fmt::format("{}", fmt::join(options, ", "));
}

}  // namespace precast::sim
