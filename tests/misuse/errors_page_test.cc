// docs/errors.md: has every code of the library, with a message that the library really gives. Each
// code is provoked here, and what is thrown must be, letter for letter, the example on the page.
#include "abi/image.h"
#include "base/log.h"
#include "misuse/misuse.h"
#include "platforms/registry.h"
#include "support/faulty_driver.h"
#include "worker/worker_impl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <utility>
#include <vector>

namespace precast::misuse {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// All codes that the library has: they are numbered without gaps.
std::vector<ErrorCode> AllCodes() {
  std::vector<ErrorCode> codes;
  for (uint16_t number = 1;; ++number) {
    auto code = static_cast<ErrorCode>(number);
    if (Name(code) == "unknown") return codes;
    codes.push_back(code);
  }
}

/// The sections of the page, by the name of their code.
std::map<std::string, std::string> Sections() {
  std::ifstream file(PRECAST_SOURCE_DIR "/docs/errors.md");
  std::map<std::string, std::string> sections;
  std::string name;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("## ")) {
      name = line.starts_with("## `") ? line.substr(4, line.find('`', 4) - 4) : "";
    } else if (!name.empty()) {
      sections[name] += line + "\n";
    }
  }
  return sections;
}

/// The text of the section's first code block, with line breaks as spaces.
std::string Example(const std::string& section) {
  size_t begin = section.find("```text\n");
  size_t end = section.find("\n```", begin);
  if (begin == std::string::npos || end == std::string::npos) return "(no example)";
  std::string text = section.substr(begin + 8, end - begin - 8);
  for (char& c : text) c = c == '\n' ? ' ' : c;
  return text;
}

PRECAST_KERNEL(fails, Core::vector)(const KernelContext&) {
  throw std::runtime_error("token 32000 is outside the vocabulary of 32000");
}

std::atomic<bool> released;
std::atomic<int> inside;
PRECAST_KERNEL(waits, Core::vector)(const KernelContext&) {
  ++inside;
  while (!released) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  --inside;
}

std::vector<float> Floats() { return std::vector<float>(8); }

void RunKernel(Worker& worker, const Kernel& kernel, const char* name) {
  std::vector<float> x = Floats();
  worker.run([&](Orchestrator& o,
                 const Args& args) { o.submit(kernel, {inout(args.tensor(0))}, {.name = name}); },
             {inout(x)});
}

template <typename Build>
void RunBuild(Build build) {
  Worker worker;
  std::vector<float> x = Floats();
  worker.run(build, {inout(x)});
}

void TimeOut(int times, ErrorCode wanted) {
  released = false;
  Worker worker({.threads = 1, .kernel_timeout = std::chrono::milliseconds(20)});
  struct Release {
    ~Release() {
      released = true;
      while (inside > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  } release;
  for (int i = 0; i < times; ++i) {
    try {
      RunKernel(worker, waits, "decode");
    } catch (const Error& error) {
      if (error.code() == wanted) throw;
    }
  }
}

/// A scheduler that loses the end of a task: its consumer waits for one producer too many.
void Stall() {
  auto driver = std::make_unique<device::FaultyDriver>(platforms::MakeDriver("cpu", 1));
  driver->set_on_copy([](device::Address, const void* source, uint64_t) {
    auto* header = static_cast<abi::Header*>(const_cast<void*>(source));
    if (header->magic != abi::kMagic) return;
    abi::TaskId id = abi::kFirstTask;
    id += abi::TaskAt(header, id)->units;
    abi::TaskAt(header, id)->producers += 1;
  });
  detail::WorkerImpl worker({.threads = 1}, std::move(driver));
  std::vector<float> x = Floats();
  static constexpr Kernel kIdle{"scale", Core::vector, [](const KernelContext&) {}};
  worker
      .Launch(
          [](Orchestrator& o, const Args& args) {
            o.submit(kIdle, {inout(args.tensor(0))}, {.name = "first"});
            o.submit(kIdle, {inout(args.tensor(0))}, {.name = "second"});
          },
          {inout(x)}, {}, nullptr, true)
      ->Result();
}

/// A process that may open no more files.
void MakeWorkerWithoutFiles() {
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  struct Restore {
    rlimit limit;
    ~Restore() { setrlimit(RLIMIT_NOFILE, &limit); }
  } restore{before};
  rlimit none = before;
  none.rlim_cur = 0;
  setrlimit(RLIMIT_NOFILE, &none);
  Worker worker({.platform = "a2a3sim"});
}

const std::map<ErrorCode, std::function<void()>>& Provoked() {
  static const std::map<ErrorCode, std::function<void()>> provoked = {
      {ErrorCode::usage, [] { ParseLogLevel("loud"); }},
      {ErrorCode::invalid_argument, [] { Worker({.threads = 257}); }},
      {ErrorCode::out_of_range,
       [] {
         std::vector<float> x = Floats();
         Tensor::host(x.data(), {2, 4}).slice(1, 2, 5);
       }},
      {ErrorCode::not_found, [] { Worker({.platform = "a3sim"}); }},
      {ErrorCode::mismatch,
       [] {
         static constexpr Kernel kReads{"reads", Core::vector,
                                        [](const KernelContext& k) { k.tensor<const int32_t>(0); }};
         Worker worker;
         RunKernel(worker, kReads, "sum");
       }},
      {ErrorCode::stale,
       [] {
         RunBuild([](Orchestrator& o, const Args& args) {
           Tensor t;
           {
             auto scope = o.scope();
             t = o.alloc({8}, DType::f32, 0);
             o.submit(waits, {in(t), out(args.tensor(0))});
           }
           o.submit(waits, {in(t), out(args.tensor(0))}, {.name = "late"});
         });
       }},
      {ErrorCode::not_ready,
       [] {
         RunBuild([](Orchestrator& o, const Args& args) {
           Tensor t = o.alloc({8}, DType::f32);
           o.submit(waits, {in(t), out(args.tensor(0))}, {.name = "early"});
         });
       }},
      {ErrorCode::unsupported, [] { ParseDType("f8e4m3"); }},
      {ErrorCode::out_of_memory,
       [] {
         Worker worker({.heap = 4096});
         std::vector<float> x = Floats();
         worker.run(
             [](Orchestrator& o, const Args&) {
               Tensor t = o.alloc({2000}, DType::f32);
               o.submit(waits, {out(t)}, {.name = "scores"});
             },
             {inout(x)});
       }},
      {ErrorCode::bad_file, [] { Worker().load(std::string("/dev/null")); }},
      {ErrorCode::io, MakeWorkerWithoutFiles},
      {ErrorCode::kernel_failed,
       [] {
         Worker worker;
         RunKernel(worker, fails, "embed");
       }},
      {ErrorCode::timeout, [] { TimeOut(1, ErrorCode::timeout); }},
      {ErrorCode::fatal,
       [] {
         RunBuild([](Orchestrator& o, const Args&) {
           o.report_fatal(7, "sequence 3 has length 4097, the cache holds 4096");
         });
       }},
      {ErrorCode::orchestration,
       [] {
         RunBuild([](Orchestrator&, const Args&) { throw std::out_of_range("layer 40 of 40"); });
       }},
      {ErrorCode::device_lost, [] { TimeOut(5, ErrorCode::device_lost); }},
      {ErrorCode::internal, Stall},
  };
  return provoked;
}

TEST(ErrorsPageTest, HasEveryCodeWithItsNumberAndNoOther) {
  std::map<std::string, std::string> sections = Sections();
  std::vector<ErrorCode> codes = AllCodes();
  EXPECT_GE(codes.size(), 17u) << "codes are added, never taken away";
  EXPECT_EQ(sections.size(), codes.size());
  for (ErrorCode code : codes) {
    std::string name(Name(code));
    ASSERT_TRUE(sections.contains(name)) << name << " is missing";
    EXPECT_THAT(sections[name],
                StartsWith("\nCode " + std::to_string(static_cast<int>(code)) + ". "))
        << name;
    EXPECT_THAT(sections[name], HasSubstr("\n**What to do.** ")) << name;
  }
}

TEST(ErrorsPageTest, EveryCodeIsProvokedAndItsExampleIsWhatTheLibrarySays) {
  std::map<std::string, std::string> sections = Sections();
  for (ErrorCode code : AllCodes()) {
    std::string name(Name(code));
    SCOPED_TRACE(name);
    auto provoke = Provoked().find(code);
    if (provoke == Provoked().end()) {
      ADD_FAILURE() << "nothing here provokes it";
      continue;
    }
    try {
      provoke->second();
      ADD_FAILURE() << "threw nothing";
    } catch (const Error& error) {
      EXPECT_EQ(Name(error.code()), name) << error.message();
      EXPECT_EQ(error.message(), Example(sections[name]));
      // What was found, in numbers or in quotation marks.
      EXPECT_THAT(error.message(), ContainsRegex("[0-9]|'")) << "it carries no value";
    }
  }
}

}  // namespace
}  // namespace precast::misuse
