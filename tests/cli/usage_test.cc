// What the command answers to words it can't make sense of: exit code 2, one paragraph that names
// what was found and what there is, and nothing on standard output.
#include "cli/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

namespace precast::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Row {
  const char* name;
  std::vector<std::string> args;
  std::vector<std::string> parts;  // of the message
};

void PrintTo(const Row& row, std::ostream* stream) { *stream << row.name; }

class Usage : public ::testing::TestWithParam<Row> {};

TEST_P(Usage, IsExplained) {
  Outcome outcome = Precast(GetParam().args);
  EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, StartsWith("precast: "));
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  for (const std::string& part : GetParam().parts) EXPECT_THAT(outcome.err, HasSubstr(part));
}

const std::vector<Row> kRows = {
    {"Command", {"fly"}, {"command 'fly'", "run", "list"}},
    {"GlobalOption", {"--verbose"}, {"option '--verbose'", "--help", "--version"}},
    {"NoProgram", {"run"}, {"name a program", "vector_add", "bgemm", "paged_attention", "qwen3"}},
    {"Program", {"run", "softmax"}, {"program 'softmax'", "vector_add", "qwen3", ".so"}},
    {"NearlyAProgram", {"run", "vector_ad"}, {"did you mean vector_add?"}},
    {"Library", {"run", "./missing.so"}, {"./missing.so", "no such file"}},
    {"Folder", {"run", "/dev/null/"}, {"/dev/null/"}},
    {"Model", {"run", "qwen3", "--model", "no.gguf"}, {"no.gguf", "No such file"}},
    {"Case", {"run", "bgemm", "--case", "huge"}, {"case 'huge'", "default", "small"}},
    {"Platform",
     {"run", "bgemm", "--platform", "h100"},
     {"platform 'h100'", "cpu", "a2a3sim", "a5sim"}},
    {"PlatformOption", {"run", "bgemm", "--platform", "a2a3sim:host_page=5k"}, {"5k"}},
    {"Option", {"run", "bgemm", "--speed", "9"}, {"option '--speed'", "--platform", "--batch"}},
    {"NearlyAnOption", {"run", "bgemm", "--round=9"}, {"'--round'", "did you mean --rounds?"}},
    {"OptionBeforeProgram", {"run", "--bogus", "bgemm"}, {"option '--bogus'", "--platform"}},
    {"Excess", {"run", "bgemm", "qwen3"}, {"'qwen3'", "precast run takes no more"}},
    {"ExcessOfList", {"list", "bgemm"}, {"'bgemm'", "precast list takes no more"}},
    {"MissingValue", {"run", "bgemm", "--case"}, {"--case", "NAME"}},
    {"TimelineOfNoChip",
     {"run", "bgemm", "--timeline", "model"},
     {"platform 'cpu' is no modelled chip", "a2a3sim", "a5sim"}},
    {"TimelineOfAnotherKind", {"run", "bgemm", "--timeline", "real"}, {"real", "none", "model"}},
    {"TimelineByTheOracle",
     {"run", "bgemm", "--platform", "a2a3sim", "--timeline", "model", "--oracle"},
     {"--oracle", "--timeline model"}},
    {"TimelineFileAlone", {"run", "bgemm", "--timeline-out", "t.json"}, {"needs --timeline model"}},
    {"NoRounds", {"run", "bgemm", "--rounds", "0"}, {"--rounds", "0", "1 to 1000000"}},
    {"WordyRounds", {"run", "bgemm", "--rounds", "ten"}, {"--rounds", "ten", "1 to 1000000"}},
    {"Threads", {"run", "bgemm", "--threads", "257"}, {"--threads", "257", "0 to 256"}},
    {"NegativeThreads", {"run", "bgemm", "--threads", "-1"}, {"-1", "0 to 256"}},
    {"Heap", {"run", "bgemm", "--heap", "much"}, {"--heap much", "K, M or G"}},
    {"NegativeHeap", {"run", "bgemm", "--heap", "-1"}, {"--heap -1", "K, M or G"}},
    {"NoSuite", {"bench"}, {"name a suite", "submit", "execute", "run"}},
    {"Suite", {"bench", "fly"}, {"suite 'fly'", "submit, execute, run"}},
    {"OptionBeforeSuite", {"bench", "--json", "submit"}, {"'--json'", "submit, execute, run"}},
    {"VectorSize", {"run", "vector_add", "--n", "67108865"}, {"from 0 to 67108864"}},
    {"Report", {"run", "bgemm", "--report", "xml"}, {"--report", "xml", "table", "json", "none"}},
    {"Golden", {"run", "bgemm", "--golden", "maybe"}, {"--golden", "maybe", "check", "skip"}},
    {"LogLevel", {"run", "bgemm", "--log-level", "loud"}, {"--log-level", "loud", "warn", "off"}},
    {"SetForm", {"run", "bgemm", "--set", "batch"}, {"--set batch", "key=value"}},
    {"SetName", {"run", "bgemm", "--set", "depth=1"}, {"parameter 'depth'", "batch", "tile"}},
    {"SetValue", {"run", "bgemm", "--set", "m=ten"}, {"parameter m is 'ten'", "from 0 to"}},
    {"OwnOption", {"run", "bgemm", "--m", "-4"}, {"parameter m is '-4'", "from 0 to"}},
    {"FlagValue", {"run", "bgemm", "--oracle=often"}, {"often"}},
};

INSTANTIATE_TEST_SUITE_P(Command, Usage, ::testing::ValuesIn(kRows),
                         [](const auto& row) { return row.param.name; });

TEST(UsageOfNothing, ShowsTheHelpOnStandardError) {
  Outcome outcome = Precast({});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("Usage: precast"), HasSubstr("list")));
}

TEST(UsageWithJson, LeavesStandardOutputEmpty) {
  Outcome outcome = Precast({"run", "bgemm", "--report", "json", "--set", "m=ten"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.out, "");
}

TEST(UsageHint, NamesTheHelpOfWhatWasAsked) {
  EXPECT_THAT(Precast({"fly"}).err, HasSubstr(". See precast --help\n"));
  EXPECT_THAT(Precast({"run", "softmax"}).err, HasSubstr(". See precast run --help\n"));
  EXPECT_THAT(Precast({"run", "--m=-4", "bgemm"}).err, HasSubstr(". See precast run bgemm --help"));
  EXPECT_THAT(Precast({"list", "--all"}).err, HasSubstr(". See precast list --help\n"));
  EXPECT_THAT(Precast({"bench", "fly"}).err, HasSubstr(". See precast bench --help\n"));
}

}  // namespace
}  // namespace precast::testing
