#include "fuzz/fuzzer.h"

#include "fuzz/generator.h"
#include "fuzz/model.h"
#include "fuzz/shrinker.h"

#include <fmt/format.h>

#include <algorithm>

namespace precast::fuzz {

namespace {

constexpr Bytes kMostHeap = Bytes{256} << 20;

/// What every execution of a plan must give.
struct Expected {
  Outcome oracle;
  std::vector<Leaf> leaves;
  std::vector<std::pair<uint32_t, uint32_t>> order;
};

/// When the blocks of a leaf ran; tickets.
struct Span {
  uint64_t start = ~uint64_t{0}, end = 0;
};

std::optional<std::string> CompareRecords(const Expected& expected, const Outcome& outcome) {
  for (const Leaf& leaf : expected.leaves) {
    for (uint64_t i = 0; i < leaf.records; ++i) {
      const Record& wanted = expected.oracle.records[leaf.record + i];
      const Record& found = outcome.records[leaf.record + i];
      if ((wanted.end != 0) != (found.end != 0)) {
        return fmt::format("block {} of task {} {}, but by the oracle it {}", i, leaf.item,
                           found.end != 0 ? "ran" : "did not run",
                           wanted.end != 0 ? "did" : "did not");
      }
      if (wanted.hash != found.hash) {
        return fmt::format("block {} of task {} read other bytes or scalars than by the oracle", i,
                           leaf.item);
      }
    }
  }
  return std::nullopt;
}

std::optional<std::string> CompareOrder(const Expected& expected, const Outcome& outcome) {
  std::vector<Span> spans(expected.leaves.size());
  for (size_t i = 0; i < spans.size(); ++i) {
    const Leaf& leaf = expected.leaves[i];
    for (uint64_t n = leaf.record; n < leaf.record + leaf.records; ++n) {
      spans[i].start = std::min(spans[i].start, outcome.records[n].start);
      spans[i].end = std::max(spans[i].end, outcome.records[n].end);
    }
  }
  for (auto [first, second] : expected.order) {
    if (expected.leaves[second].records == 0) {  // a dependency ends when what it waits for has
      spans[second].end = std::max(spans[second].end, spans[first].end);
    } else if (spans[second].start < spans[first].end) {
      return fmt::format("task {} started before task {} had ended", expected.leaves[second].item,
                         expected.leaves[first].item);
    }
  }
  return std::nullopt;
}

std::optional<std::string> CompareSeen(const Expected& expected, const Outcome& outcome) {
  for (size_t i = 0; i < expected.oracle.seen.size(); ++i) {
    const std::vector<std::byte>&wanted = expected.oracle.seen[i], &found = outcome.seen[i];
    if (wanted == found) continue;
    auto at = std::mismatch(wanted.begin(), wanted.end(), found.begin()).first - wanted.begin();
    size_t reads = expected.oracle.reads;
    return fmt::format("{} differs from byte {} on",
                       i < reads ? fmt::format("read {} of the host", i)
                                 : fmt::format("buffer b{} at the end", i - reads),
                       at);
  }
  return std::nullopt;
}

std::optional<std::string> Compare(const Expected& expected, const Outcome& outcome) {
  if (outcome.failed) {
    return fmt::format("error {}: {}", Name(outcome.failed->code()), outcome.failed->message());
  }
  if (auto what = CompareRecords(expected, outcome)) return what;
  if (auto what = CompareOrder(expected, outcome)) return what;
  return CompareSeen(expected, outcome);
}

}  // namespace

std::optional<Difference> Check(Plan* plan, const Options& options) {
  Expected expected;
  auto execute = [&](const Way& way) {
    Outcome outcome = Execute(*plan, way);
    if (options.tamper) options.tamper(*plan, way, &outcome);
    return outcome;
  };
  // What the recorder does wrong it does wrong for the oracle, too, so nothing is recorded there.
  Way oracle{.platform = "cpu", .oracle = true, .records_always = true};
  Way replays{.platform = "cpu", .oracle = true};
  auto too_small = [&](const Way& way) {
    expected.oracle = execute(way);
    return expected.oracle.failed && expected.oracle.failed->code() == ErrorCode::out_of_memory &&
           plan->settings.heap < kMostHeap;
  };
  while (too_small(replays) || too_small(oracle)) plan->settings.heap *= 2;
  if (auto what = Compare({}, expected.oracle); expected.oracle.failed) {
    return Difference{oracle, *what};
  }
  if (Model::Problem problem = CheckPlan(*plan, &expected.leaves)) {
    return Difference{oracle, fmt::format("the generator broke a rule: {}", problem)};
  }
  std::vector<bool> ran;
  for (const Leaf& leaf : expected.leaves) {
    ran.push_back(leaf.records > 0 ? expected.oracle.records[leaf.record].end != 0 : leaf.certain);
  }
  expected.order = RequiredOrder(expected.leaves, ran);

  std::vector<Way> ways;
  for (const std::string& platform : options.platforms) {
    ways.push_back({.platform = platform, .oracle = true, .reverse_blocks = true});
    for (int threads : options.threads) ways.push_back({platform, threads});
  }
  for (const Way& way : ways) {
    if (auto what = Compare(expected, execute(way))) return Difference{way, std::move(*what)};
  }
  return std::nullopt;
}

Report Fuzz(const Options& options, const std::function<void(const Report&)>& progress) {
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin = Clock::now();
  Report report{.seed = options.seed};
  if (progress) progress(report);
  while (options.time.count() != 0 ? Clock::now() - begin < options.time
                                   : report.programs < options.programs) {
    Plan plan = Generate(report.seed);
    ++report.seed;
    ++report.programs;
    report.tasks += CountTasks(plan);
    if (std::optional<Difference> difference = Check(&plan, options)) {
      report.failures.push_back(Shrink(std::move(plan), std::move(*difference), options));
    }
    if (progress) progress(report);
  }
  return report;
}

std::string ToString(const Failure& failure) {
  const Way& way = failure.difference.way;
  return fmt::format("seed {}: {}: {}\n\n{}\nprecast fuzz --seed {} --platform {}{}\n",
                     failure.seed, ToString(way), failure.difference.what, ToString(failure.plan),
                     failure.seed, way.platform,
                     way.oracle ? "" : fmt::format(" --threads {}", way.threads));
}

}  // namespace precast::fuzz
