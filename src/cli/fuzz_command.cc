#include "cli/fuzz_command.h"

#include "cli/output.h"
#include "cli/progress.h"
#include "fuzz/fuzzer.h"

#include <precast/error.h>
#include <precast/worker.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <cstring>
#include <iterator>
#include <random>
#include <signal.h>
#include <string_view>
#include <unistd.h>

namespace precast::cli {
namespace {

constexpr uint64_t kDefaultPrograms = 100;

/// "60s", "3m", "1h".
std::chrono::nanoseconds ParseTime(std::string_view text) {
  constexpr int64_t kMost = 1'000'000;
  int64_t number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  if (error == std::errc() && number >= 1 && number <= kMost) {
    if (unit == "s") return std::chrono::seconds(number);
    if (unit == "m") return std::chrono::minutes(number);
    if (unit == "h") return std::chrono::hours(number);
  }
  Fail(ErrorCode::usage, "--time: '{}' is no time; allowed: 1 to {}, then s, m or h, as in 60s",
       text, kMost);
}

// A crash ends the process: then at least its seed has to be known. So has that of a program that
// does not end.
constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGALRM};
constexpr unsigned kMostSeconds = 900;
struct sigaction before[std::size(kSignals)];
char last_words[100];

void WriteLastWords(int signal) {
  ssize_t written = write(STDERR_FILENO, last_words, strlen(last_words));
  static_cast<void>(written);
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    if (kSignals[i] == signal) sigaction(signal, &before[i], nullptr);
  }
  raise(signal);  // once more, now for whoever was there before
}

/// Says from now on which program it was that ended the process.
void NoteSeed(uint64_t seed) {
  std::string text = fmt::format("precast: stopped in the program of seed {}\n", seed);
  text.copy(last_words, sizeof(last_words) - 1);
  alarm(kMostSeconds);
}

class LastWords {
 public:
  LastWords() {
    struct sigaction action {};
    action.sa_handler = WriteLastWords;
    for (size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &action, &before[i]);
  }
  ~LastWords() {
    alarm(0);
    for (size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &before[i], nullptr);
  }
};

}  // namespace

void FuzzCommand::Declare(CLI::App& app, const std::vector<std::string>& /*args*/) {
  app_ = &app;
  app.add_option("--seed", seed_, "Seed of the first program; the next has the next [random]")
      ->type_name("N")
      ->check([](const std::string& text) {  // which would wrap around
        return text.starts_with('-')
                   ? fmt::format("Value {} not in range 0 to {}", text, ~uint64_t{0})
                   : std::string();
      });
  app.add_option("--programs", programs_,
                 fmt::format("How many programs [{}; 1 with --seed]", kDefaultPrograms))
      ->type_name("N")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1'000'000'000}).description(""));
  app.add_option("--time", time_, "Start programs for this long instead, e.g. 60s, 3m or 1h")
      ->type_name("TIME");
  app.add_option("--platform", platform_, "One chip, see precast list [all of them in turn]")
      ->type_name("NAME");
  app.add_option("--threads", threads_, "Threads that execute kernels, 1 to 256 [1, 2 and 8]")
      ->type_name("N")
      ->check(CLI::Range(1, 256).description(""));
  app.footer(
      "A program is drawn from its seed: the same seed is the same program everywhere. Each block\n"
      "must read the bytes that it read when the oracle ran it, and start after all that it "
      "needs.\n"
      "A program that fails is made small and printed, with the command that shows it again.\n"
      "\n"
      "Examples:\n"
      "  precast fuzz\n"
      "  precast fuzz --time 60s --platform a2a3sim\n"
      "  precast fuzz --seed 17 --threads 2");
}

int FuzzCommand::Run(Output& output) {
  fuzz::Options options;
  bool seeded = app_->count("--seed") > 0;
  options.seed = seed_;
  if (!seeded) options.seed = std::random_device()();
  if (!time_.empty()) options.time = ParseTime(time_);
  if (programs_ != 0 && !time_.empty()) {
    Fail(ErrorCode::usage, "--programs and --time: one of them says when to stop");
  }
  options.programs = programs_ != 0 ? programs_ : seeded ? 1 : kDefaultPrograms;
  if (threads_ != 0) options.threads = {threads_};
  if (!platform_.empty()) {
    options.platforms = {platform_};
    try {
      Worker worker({.platform = platform_});
    } catch (const Error& error) {
      if (error.code() != ErrorCode::not_found) throw;
      throw Error(ErrorCode::usage, error.message(), error.location());
    }
  } else {
    for (const PlatformInfo& platform : Platforms()) options.platforms.push_back(platform.name);
  }
  output.WriteNow(fmt::format("seeds from {}\n", options.seed));

  size_t shown = 0;
  fuzz::Report report;
  {
    Progress progress(true);
    LastWords last_words_of_a_crash;
    report = fuzz::Fuzz(options, [&](const fuzz::Report& so_far) {
      NoteSeed(so_far.seed);
      progress.Show(fmt::format("{} programs", so_far.programs));
      for (; shown < so_far.failures.size(); ++shown) {
        progress.Pause();
        output.WriteNow(fmt::format("\n{}\n", fuzz::ToString(so_far.failures[shown])));
      }
    });
  }
  output.Write(fmt::format("{} programs, {} tasks, {} differences\n", report.programs, report.tasks,
                           report.failures.size()));
  output.Flush();
  return report.failures.empty() ? kSuccess : kFailure;
}

}  // namespace precast::cli
