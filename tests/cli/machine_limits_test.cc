// The command on a machine that lacks something: each time it works, or says clearly what is
// missing.
#include "cli/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <string>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

namespace precast::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using Json = nlohmann::json;

const std::vector<std::string> kRun = {"run", "vector_add", "--case", "small"};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

std::vector<std::string> On(const char* platform, std::vector<std::string> more = {}) {
  std::vector<std::string> args = kRun;
  args.insert(args.end(), {"--platform", platform});
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

std::function<void()> Limit(__rlimit_resource_t resource, rlim_t value) {
  return [=] {
    rlimit limit{value, value};
    setrlimit(resource, &limit);
  };
}

/// One line on standard error, exit code 1.
void ExpectOneClearError(const Outcome& outcome, const std::string& part) {
  EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
  EXPECT_THAT(outcome.err, StartsWith("precast: "));
  EXPECT_THAT(outcome.err, HasSubstr(part));
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
}

TEST(MachineLimits, TooFewAddressesForADeviceIsAClearError) {
  if (kSanitized) GTEST_SKIP() << "sanitizers reserve more addresses than that themselves";
  for (const char* platform : {"cpu", "a2a3sim", "a5sim"}) {
    Outcome outcome = Precast(On(platform), {.before = Limit(RLIMIT_AS, rlim_t{4} << 30)});
    ExpectOneClearError(outcome, "simulated device memory: mmap of ");
    EXPECT_THAT(outcome.err, HasSubstr("Cannot allocate memory"));
  }
}

TEST(MachineLimits, WithLittleMemoryBeyondTheDeviceARunWorksOrSaysSo) {
  if (kSanitized) GTEST_SKIP() << "sanitizers reserve more addresses than that themselves";
  // The two mappings of 64 GiB fit. What is left shrinks until the command does not even start.
  const rlim_t device = rlim_t{128} << 30;
  int worked = 0, refused = 0;
  for (rlim_t mib : {512, 256, 128, 96, 64, 48, 32, 24, 16, 8, 4}) {
    Outcome outcome = Precast(On("a2a3sim", {"--threads", "8", "--rounds", "3", "--n", "1000000"}),
                              {.before = Limit(RLIMIT_AS, device + (mib << 20))});
    if (outcome.exit_code == 0) {
      ++worked;
      EXPECT_THAT(outcome.out, HasSubstr("golden: pass"));
    } else {
      ++refused;
      EXPECT_EQ(outcome.exit_code, 1) << mib << " MiB: " << outcome.err;
      EXPECT_THAT(outcome.err, StartsWith("precast: ")) << mib << " MiB";
    }
  }
  EXPECT_GT(worked, 0);
  EXPECT_GT(refused, 0);
}

/// memfd_create fails as it does where a sandbox forbids it.
void RefuseMemoryFiles() {
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_memfd_create, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog program{sizeof(code) / sizeof(code[0]), code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    _exit(126);
  }
}

TEST(MachineLimits, WithoutMemoryFilesThereIsAClearError) {
  for (const char* platform : {"cpu", "a2a3sim", "a5sim"}) {
    Outcome outcome = Precast(On(platform), {.before = RefuseMemoryFiles});
    if (outcome.exit_code == 126) GTEST_SKIP() << "no filter of system calls here";
    ExpectOneClearError(outcome, "memfd_create of ");
    EXPECT_THAT(outcome.err, HasSubstr("Operation not permitted"));
  }
  Outcome outcome = Precast({"doctor"}, {.before = RefuseMemoryFiles});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("memory files   Operation not permitted"));
}

TEST(MachineLimits, OnOneCoreEverythingWorks) {
  auto one_core = [] {
    cpu_set_t all, one;
    sched_getaffinity(0, sizeof(all), &all);
    CPU_ZERO(&one);
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (!CPU_ISSET(core, &all)) continue;
      CPU_SET(core, &one);
      break;
    }
    sched_setaffinity(0, sizeof(one), &one);
  };
  for (const char* threads : {"0", "2", "16"}) {
    for (const char* platform : {"cpu", "a2a3sim", "a5sim"}) {
      Outcome outcome =
          Precast(On(platform, {"--threads", threads, "--rounds", "20"}), {.before = one_core});
      EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
      EXPECT_THAT(outcome.out, HasSubstr("golden: pass"));
    }
  }
}

TEST(MachineLimits, FarMoreThreadsThanCoresWork) {
  for (const char* platform : {"cpu", "a2a3sim"}) {
    Outcome outcome = Precast({"run", "bgemm", "--case", "small", "--threads", "256", "--rounds",
                               "20", "--platform", platform, "--report", "json"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    Json json = Json::parse(outcome.out);
    EXPECT_EQ(json["golden"], "pass");
    EXPECT_EQ(json["rounds"][0]["threads"], 256);
  }
}

TEST(MachineLimits, FewerThreadsThanAskedForWork) {
  if (kSanitized) GTEST_SKIP() << "sanitizers start threads of their own";
  // The limit on threads does not hold for root. So their stacks, of 1 GiB each, are what there is
  // no room for, beside the two mappings of 64 GiB: some fit, or only the one that waits for
  // signals.
  for (rlim_t mib : {(128 << 10) + 6000, (128 << 10) + 1500}) {
    auto large_stacks = [mib] {
      Limit(RLIMIT_STACK, rlim_t{1} << 30)();
      Limit(RLIMIT_AS, mib << 20)();
    };
    Outcome outcome =
        Precast(On("a2a3sim", {"--threads", "64", "--rounds", "5"}), {.before = large_stacks});
    EXPECT_EQ(outcome.exit_code, 0) << mib << " MiB: " << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("golden: pass"));
  }
}

TEST(MachineLimits, HugePagesAreNotNeeded) {
  auto without = [] { prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0); };
  for (const char* platform : {"cpu", "a2a3sim", "a5sim"}) {
    Outcome outcome = Precast(On(platform), {.before = without});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  }
}

TEST(MachineLimits, AReportThatDoesNotFitIsAFailure) {
  if (kSanitized) GTEST_SKIP() << "the limit stops what sanitizers write, before main";
  // A limit on the size of files refuses at any byte, as a full disk does.
  std::filesystem::path path =
      std::filesystem::path(::testing::TempDir()) / ("precast_report_" + std::to_string(getpid()));
  for (rlim_t bytes : {0, 1, 500}) {
    auto redirect = [&] {
      Limit(RLIMIT_FSIZE, bytes)();
      if (std::freopen(path.c_str(), "w", stdout) == nullptr) _exit(126);
    };
    Outcome outcome = Precast({"list", "--json"}, {.before = redirect});
    ExpectOneClearError(outcome, "cannot write to standard output: File too large");
    EXPECT_LE(std::filesystem::file_size(path), bytes);
  }
  std::filesystem::remove(path);
}

TEST(MachineLimits, TooSmallFilesForADeviceAreAClearError) {
  for (const char* platform : {"cpu", "a2a3sim", "a5sim"}) {
    Outcome outcome = Precast(On(platform), {.before = Limit(RLIMIT_FSIZE, 1 << 20)});
    ExpectOneClearError(outcome, "simulated device memory: ftruncate of ");
    EXPECT_THAT(outcome.err, HasSubstr("File too large"));
  }
  Outcome outcome = Precast({"doctor"}, {.before = Limit(RLIMIT_FSIZE, 1 << 20)});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("note: files are limited to 1.00 MiB (ulimit -f)"));
}

}  // namespace
}  // namespace precast::testing
