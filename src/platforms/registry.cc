#include "platforms/registry.h"

#include "platforms/sim/profile.h"
#include "platforms/sim/sim_driver.h"

#include <precast/error.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace precast::platforms {
namespace {

struct Platform {
  std::string_view name;
  sim::Profile (*profile)();
};

constexpr Platform kPlatforms[] = {
    {"cpu", sim::CpuProfile},
    {"a2a3sim", sim::A2a3Profile},
    {"a5sim", sim::A5Profile},
};

const Platform& Find(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Platform& platform : kPlatforms) {
    if (platform.name == name) return platform;
    names.push_back(platform.name);
  }
  Fail(ErrorCode::not_found, "unknown platform '{}'; allowed: {}", name, fmt::join(names, ", "));
}

}  // namespace

std::string_view BaseName(std::string_view platform) {
  return platform.substr(0, platform.find(':'));
}

std::unique_ptr<device::Driver> MakeDriver(const std::string& platform, int threads) {
  std::string_view name = BaseName(platform);
  sim::Profile profile = Find(name).profile();
  if (name.size() < platform.size()) {
    sim::ApplyOptions(std::string_view(platform).substr(name.size() + 1), &profile);
    profile.name = platform;
  }
  return std::make_unique<sim::SimDriver>(std::move(profile), threads);
}

std::vector<Entry> List() {
  std::vector<Entry> entries;
  for (const Platform& platform : kPlatforms) {
    sim::Profile profile = platform.profile();
    entries.push_back({.name = profile.name,
                       .summary = profile.summary,
                       .options = sim::DescribeOptions(profile),
                       .properties = sim::PropertiesOf(profile, 0)});
  }
  return entries;
}

}  // namespace precast::platforms
