#include "hostview/hostview.h"

#include "device/device_memory.h"
#include "graphs/measure.h"

#include <precast/precast.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace precast::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kElements = 1024;  // of an allocation: 4 KiB, one page
constexpr int kReads = 4096;         // a repetition
constexpr int kRepetitions = 400;

class Results {
 public:
  void Add(std::string name, double value, std::string_view unit) {
    list_.push_back({{"name", std::move(name)}, {"value", value}, {"unit", unit}});
  }
  nlohmann::json list() && { return std::move(list_); }

 private:
  nlohmann::json list_ = nlohmann::json::array();
};

PRECAST_KERNEL(touch, Core::vector)(const KernelContext&) {}

/// Child memory of a worker, each tensor a random cycle through its own indices.
class Tables {
 public:
  Tables(Worker& worker, size_t count) : worker_(worker) {
    std::mt19937 random(1);
    for (size_t t = 0; t < count; ++t) {
      std::vector<int32_t> order(kElements), next(kElements);
      for (int32_t i = 0; i < kElements; ++i) order[static_cast<size_t>(i)] = i;
      std::shuffle(order.begin() + 1, order.end(), random);
      for (size_t i = 0; i < kElements; ++i) {
        next[static_cast<size_t>(order[i])] = order[(i + 1) % kElements];
      }
      tensors_.push_back(worker.malloc({kElements}, DType::i32));
      worker.copy_to(tensors_.back(), next);
    }
  }
  ~Tables() {
    for (const Tensor& tensor : tensors_) worker_.free(tensor);
  }
  Tables(const Tables&) = delete;
  Tables& operator=(const Tables&) = delete;

  std::vector<Arg> Args() const {
    std::vector<Arg> args;
    for (const Tensor& tensor : tensors_) args.push_back(inout(tensor));
    return args;
  }

 private:
  Worker& worker_;
  std::vector<Tensor> tensors_;
};

/// The median nanoseconds of one of `count` steps; `step(i, last)` gives the next `last`.
template <typename Step>
double NanosecondsPerStep(int count, Step&& step) {
  std::vector<double> ns;
  int64_t last = 0;
  for (int repetition = -2; repetition < kRepetitions; ++repetition) {
    auto begin = Clock::now();
    for (int i = 0; i < count; ++i) last = step(i, last);
    std::chrono::duration<double, std::nano> spent = Clock::now() - begin;
    asm volatile("" : "+r"(last));
    if (repetition >= 0) ns.push_back(spent.count() / count);
  }
  return Median(std::move(ns));
}

/// Runs `look` as an orchestration over these arguments; nothing is executed.
template <typename Look>
RunReport LookAt(Worker& worker, const std::vector<Arg>& args, Look&& look,
                 HostViewPolicy policy = HostViewPolicy::cache) {
  return worker.run(
      [&](Orchestrator& o, const Args& a) {
        look(o, a);
        o.submit(kNoKernel, {});
      },
      args, {.host_views = policy});
}

void MeasureReads(Worker& worker, size_t claimed, Results* results) {
  Tables tables(worker, claimed);
  double independent = 0, dependent = 0, random = 0, elsewhere = 0;
  std::vector<uint16_t> order(kReads);
  std::mt19937 generator(2);
  for (uint16_t& which : order) which = static_cast<uint16_t>(generator() % claimed);
  LookAt(worker, tables.Args(), [&](Orchestrator& o, const Args& a) {
    const Tensor& table = a.tensor(claimed / 2);
    independent = NanosecondsPerStep(kReads, [&](int i, int64_t sum) {
      return sum + o.get_tensor_data<int32_t>(table, {i % kElements});
    });
    dependent = NanosecondsPerStep(kReads, [&](int, int64_t last) {
      return int64_t{o.get_tensor_data<int32_t>(table, {last})};
    });
    random = NanosecondsPerStep(kReads, [&](int i, int64_t sum) {
      return sum + o.get_tensor_data<int32_t>(a.tensor(order[static_cast<size_t>(i)]),
                                              {(i * 7) % kElements});
    });
    o.submit(touch, {inout(table.slice(0, 0, 8))});
    elsewhere = NanosecondsPerStep(kReads, [&](int i, int64_t sum) {
      return sum + o.get_tensor_data<int32_t>(table, {8 + i % (kElements - 8)});
    });
  });
  results->Add(fmt::format("read/independent/{}_claimed", claimed), independent, "ns");
  results->Add(fmt::format("read/dependent/{}_claimed", claimed), dependent, "ns");
  results->Add(fmt::format("read/random_over/{}", claimed), random, "ns");
  results->Add(fmt::format("read/task_wrote_elsewhere/{}_claimed", claimed), elsewhere, "ns");
}

/// The same on host arguments, as the reference runtime was measured.
void MeasureStagedReads(Worker& worker, size_t count, Results* results) {
  std::vector<std::vector<int32_t>> memory(count, std::vector<int32_t>(kElements));
  std::vector<Arg> args;
  for (auto& values : memory) args.push_back(in(values));
  double ns = 0;
  LookAt(worker, args, [&](Orchestrator& o, const Args& a) {
    ns = NanosecondsPerStep(kReads, [&](int i, int64_t sum) {
      return sum +
             o.get_tensor_data<int32_t>(a.tensor(static_cast<size_t>(i) % count), {i % kElements});
    });
  });
  results->Add(fmt::format("read/staged/{}", count), ns, "ns");
}

/// Claims alone, and all that a bind does for one argument in child memory.
void MeasureClaims(Worker& worker, Results* results) {
  constexpr int kClaims = 1000;
  struct NoDevice final : device::Driver {
    device::Address next = 4096;
    device::Properties properties() const override { return {}; }
    device::Address Allocate(uint64_t) override { return next += 4096; }
    void Free(device::Address) override {}
    void CopyToDevice(device::Address, const void*, uint64_t) override {}
    void CopyToHost(void*, device::Address, uint64_t) override {}
    void Fill(device::Address, uint8_t, uint64_t) override {}
    void* AllocatePinned(uint64_t) override { return nullptr; }
    void FreePinned(void*) override {}
    void LoadKernels(uint32_t, std::span<const Kernel>) override {}
    device::Ticket Execute(const device::Launch&) override { return 0; }
    bool Wait(device::Ticket, std::chrono::nanoseconds) override { return true; }
    device::Outcome Collect(device::Ticket) override { return {}; }
    void Reset() override {}
  } driver;
  device::DeviceMemory memory(&driver);
  std::vector<Tensor> tensors;
  for (int i = 0; i < kClaims; ++i) tensors.push_back(memory.Malloc({kElements}, DType::i32));
  std::vector<double> claims, releases;
  for (int repetition = 0; repetition < kRepetitions; ++repetition) {
    auto begin = Clock::now();
    for (const Tensor& tensor : tensors) memory.Claim(tensor);
    auto middle = Clock::now();
    for (uint32_t i = 0; i < kClaims; ++i) memory.Release(i);
    auto end = Clock::now();
    claims.push_back(std::chrono::duration<double, std::nano>(middle - begin).count() / kClaims);
    releases.push_back(std::chrono::duration<double, std::nano>(end - middle).count() / kClaims);
  }
  results->Add("claim", Median(claims), "ns");
  results->Add("claim/release", Median(releases), "ns");

  Tables tables(worker, kClaims);
  std::vector<Arg> args = tables.Args();
  std::vector<double> binds;
  for (int repetition = 0; repetition < kRepetitions; ++repetition) {
    RunReport report = LookAt(worker, args, [](Orchestrator&, const Args&) {});
    binds.push_back(report[Phase::args].wall_us * 1000 / kClaims);
  }
  results->Add("claim/whole_args_phase_per_argument", Median(binds), "ns");
}

/// The tables of paged attention Case1: 256 rows of 64 used blocks, 256 lengths.
struct Case1 {
  explicit Case1(Worker& on) : worker(on) {
    table = worker.malloc({kSequences, kColumns}, DType::i32);
    lens = worker.malloc({kSequences}, DType::i32);
    worker.memset(table, 1);
    worker.memset(lens, 1);
  }
  ~Case1() {
    worker.free(table);
    worker.free(lens);
  }
  static constexpr int64_t kSequences = 256, kColumns = 256, kBlocks = 64;
  Worker& worker;
  Tensor table, lens;
};

void MeasureCase1(const std::string& platform, HostViewPolicy policy, const std::string& reads,
                  Results* results) {
  Worker worker({.platform = platform});
  Case1 tables(worker);
  std::vector<double> wall;
  RunReport report;
  int repetitions = policy == HostViewPolicy::cache ? 50 : 5;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    double us = 0;
    std::vector<int32_t> row(Case1::kBlocks), lens(Case1::kSequences);
    std::vector<int32_t> all(Case1::kSequences * Case1::kColumns);
    report = LookAt(
        worker, {in(tables.table), in(tables.lens)},
        [&](Orchestrator& o, const Args& a) {
          const Tensor &table = a.tensor(0), &lengths = a.tensor(1);
          auto begin = Clock::now();
          int64_t sum = 0;
          if (reads != "element") o.get_tensor_data(lengths, lens);
          if (reads == "table") o.get_tensor_data(table, all);
          for (int64_t b = 0; reads != "table" && b < Case1::kSequences; ++b) {
            if (reads == "element") {
              sum += o.get_tensor_data<int32_t>(lengths, {b});
              for (int64_t i = 0; i < Case1::kBlocks; ++i) {
                sum += o.get_tensor_data<int32_t>(table, {b, i});
              }
            } else {
              o.get_tensor_data(table.select(0, b).slice(0, 0, Case1::kBlocks), row);
            }
          }
          asm volatile("" : "+r"(sum));
          us = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
        },
        policy);
    wall.push_back(us);
  }
  const char* names[] = {"cache", "rebuild", "copy"};
  std::string name =
      fmt::format("case1/{}/{}/{}", platform, names[static_cast<size_t>(policy)], reads);
  results->Add(name + "/wall", Median(wall), "us");
  results->Add(
      name + "/modelled",
      report[Phase::host_orch].modelled_us() + report[Phase::host_view_close].modelled_us(),
      "modelled_us");
  results->Add(name + "/devcopy", static_cast<double>(report.host_views.devcopy), "copies");
}

/// Five rounds over the two tables of small1: 16 block numbers and one length.
void MeasureSmall1(HostViewPolicy policy, std::string_view policy_name, Results* results) {
  Worker worker({.platform = "a2a3sim", .host_views = policy});
  Tensor table = worker.malloc({1, 16}, DType::i32), lens = worker.malloc({1}, DType::i32);
  worker.memset(table, 0);
  worker.memset(lens, 0);
  for (int round = 1; round <= 5; ++round) {
    RunReport report = LookAt(
        worker, {in(table), in(lens)},
        [](Orchestrator& o, const Args& a) {
          o.get_tensor_data<int32_t>(a.tensor(1), {0});
          o.get_tensor_data<int32_t>(a.tensor(0), {0, 0});
        },
        policy);
    std::string name = fmt::format("small1/{}/round_{}", policy_name, round);
    results->Add(
        name + "/modelled",
        report[Phase::host_orch].modelled_us() + report[Phase::host_view_close].modelled_us(),
        "modelled_us");
    results->Add(name + "/wall",
                 report[Phase::host_orch].wall_us + report[Phase::host_view_close].wall_us, "us");
    results->Add(name + "/established", static_cast<double>(report.host_views.established),
                 "views");
    results->Add(name + "/reused", static_cast<double>(report.host_views.reused), "views");
  }
  worker.free(table);
  worker.free(lens);
}

}  // namespace

nlohmann::json MeasureHostViews() {
  Results results;
  {
    Worker worker({.platform = "a2a3sim"});
    for (size_t claimed : {1, 20, 1000}) MeasureReads(worker, claimed, &results);
    for (size_t staged : {1, 20, 92}) MeasureStagedReads(worker, staged, &results);
    MeasureClaims(worker, &results);
  }
  for (const char* reads : {"element", "row", "table"}) {
    for (auto policy : {HostViewPolicy::cache, HostViewPolicy::rebuild, HostViewPolicy::copy}) {
      MeasureCase1("a2a3sim", policy, reads, &results);
    }
    MeasureCase1("a5sim", HostViewPolicy::cache, reads, &results);
  }
  MeasureSmall1(HostViewPolicy::cache, "cache", &results);
  MeasureSmall1(HostViewPolicy::rebuild, "rebuild", &results);
  MeasureSmall1(HostViewPolicy::copy, "copy", &results);
  return {
      {"suite", "hostview"}, {"machine", MachineName()}, {"results", std::move(results).list()}};
}

}  // namespace precast::bench
