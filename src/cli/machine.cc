#include "cli/machine.h"

#include <CLI/Version.hpp>
#include <fmt/format.h>
#include <gnu/libc-version.h>
#include <nlohmann/json.hpp>
#include <spdlog/version.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <sched.h>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <vector>

namespace precast::cli {
namespace {

using Json = nlohmann::ordered_json;

// Those that kernels of the examples, or a compiler asked for this very machine, make use of.
constexpr std::string_view kFeatures[] = {
    "sse4_2",   "avx2",        "fma",         "f16c",        "bmi2",     "avx512f",
    "avx512bw", "avx512_bf16", "avx512_fp16", "avx512_vnni", "avx_vnni", "amx_tile",
    "amx_bf16", "amx_int8",    "asimd",       "bf16",        "i8mm",     "sve"};

std::string FirstLine(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// The value of the first line "key : value" of a file of /proc; empty when there is none.
std::string Value(const char* path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    size_t colon = line.find(':');
    if (colon == std::string::npos || !line.starts_with(key)) continue;
    if (line.find_first_not_of(" \t", key.size()) != colon) continue;
    size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

Json TextOrNull(std::string text) { return text.empty() ? Json() : Json(std::move(text)); }

Json MemoryBytes(std::string_view key) {
  std::istringstream text(Value("/proc/meminfo", key));
  uint64_t kibibytes = 0;
  return text >> kibibytes ? Json(kibibytes << 10) : Json();
}

/// The word in brackets of "always [madvise] never".
Json Chosen(const char* path) {
  std::string line = FirstLine(path);
  size_t begin = line.find('['), end = line.find(']');
  if (begin == std::string::npos || end == std::string::npos) return Json();
  return line.substr(begin + 1, end - begin - 1);
}

/// Cores' worth of time that the control group allows; null: no limit.
Json Quota() {
  std::istringstream text(FirstLine("/sys/fs/cgroup/cpu.max"));
  double quota = 0, period = 0;
  return text >> quota >> period && period > 0 ? Json(quota / period) : Json();
}

Json UsableCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? Json(CPU_COUNT(&set)) : Json();
}

/// "yes", or why not.
std::string MemoryFiles() {
  int file = memfd_create("precast-doctor", MFD_CLOEXEC);
  if (file < 0) return std::generic_category().message(errno);
  close(file);
  return "yes";
}

Json Limit(__rlimit_resource_t resource) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return Json();
  return limit.rlim_cur;
}

}  // namespace

Json MachineJson() {
  utsname system{};
  uname(&system);
  std::string flags = Value("/proc/cpuinfo", "flags");
  if (flags.empty()) flags = Value("/proc/cpuinfo", "Features");
  std::istringstream words(flags);
  std::set<std::string, std::less<>> known(std::istream_iterator<std::string>(words), {});
  Json features = Json::array();
  for (std::string_view feature : kFeatures) {
    if (known.contains(feature)) features.push_back(feature);
  }
  return {
      {"system", fmt::format("{} {} {}", system.sysname, system.release, system.machine)},
      {"processor", TextOrNull(Value("/proc/cpuinfo", "model name"))},
      {"features", std::move(features)},
      {"usable_cores", UsableCores()},
      {"cores", std::thread::hardware_concurrency()},
      {"cpu_quota", Quota()},
      {"clock_source",
       TextOrNull(FirstLine("/sys/devices/system/clocksource/clocksource0/current_clocksource"))},
      {"invariant_clock", known.contains("constant_tsc") && known.contains("nonstop_tsc")},
      {"memory_bytes", MemoryBytes("MemTotal")},
      {"available_bytes", MemoryBytes("MemAvailable")},
      {"huge_pages", Chosen("/sys/kernel/mm/transparent_hugepage/enabled")},
      {"huge_pages_shared", Chosen("/sys/kernel/mm/transparent_hugepage/shmem_enabled")},
      {"memory_files", MemoryFiles()}};
}

Json LimitsJson() {
  return {{"address_space_bytes", Limit(RLIMIT_AS)},
          {"locked_bytes", Limit(RLIMIT_MEMLOCK)},
          {"open_files", Limit(RLIMIT_NOFILE)},
          {"threads", Limit(RLIMIT_NPROC)},
          {"file_bytes", Limit(RLIMIT_FSIZE)}};
}

Json LibrariesJson() {
  auto version = [](uint64_t number) {
    return fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
  };
  return {{"fmt", version(FMT_VERSION)},
          {"spdlog", version(SPDLOG_VERSION)},
          {"nlohmann-json", fmt::format("{}.{}.{}", NLOHMANN_JSON_VERSION_MAJOR,
                                        NLOHMANN_JSON_VERSION_MINOR, NLOHMANN_JSON_VERSION_PATCH)},
          {"CLI11", CLI11_VERSION},
          {"xxHash", version(XXH_versionNumber())},
          {"glibc", gnu_get_libc_version()}};
}

}  // namespace precast::cli
