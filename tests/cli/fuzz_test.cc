// `precast fuzz`: its last line, its seeds, its mistakes.
#include "cli/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace precast::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

TEST(Fuzz, EndsWithWhatItDid) {
  Outcome outcome = Precast({"fuzz", "--seed", "1", "--programs", "5", "--platform", "cpu"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, MatchesRegex("seeds from 1\n5 programs, [0-9]+ tasks, 0 differences\n"));
  EXPECT_EQ(Precast({"fuzz", "--seed", "1", "--programs", "5", "--platform", "cpu"}).out,
            outcome.out);
}

TEST(Fuzz, ASeedAloneIsOneProgramOnAllPlatforms) {
  Outcome outcome = Precast({"fuzz", "--seed", "18446744073709551615"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("seeds from 18446744073709551615\n1 programs, "));
}

TEST(Fuzz, StopsAfterATime) {
  Outcome outcome = Precast({"fuzz", "--time", "1s", "--platform", "a5sim", "--threads", "2"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr(" tasks, 0 differences\n"));
}

TEST(Fuzz, MistakesAreExplained) {
  auto refused = [](std::vector<std::string> args) {
    args.insert(args.begin(), "fuzz");
    Outcome outcome = Precast(args);
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, HasSubstr("See precast fuzz --help"));
    return outcome.err;
  };
  EXPECT_THAT(refused({"--platform", "a9"}), HasSubstr("unknown platform 'a9'"));
  EXPECT_THAT(refused({"--time", "fast"}), HasSubstr("'fast' is no time; allowed: 1 to 1000000"));
  EXPECT_THAT(refused({"--time", "0s"}), HasSubstr("'0s'"));
  EXPECT_THAT(refused({"--time", "5"}), HasSubstr("s, m or h"));
  EXPECT_THAT(refused({"--threads", "0"}), HasSubstr("1 to 256"));
  EXPECT_THAT(refused({"--programs", "0"}), HasSubstr("1 to 1000000000"));
  EXPECT_THAT(refused({"--seed", "-1"}), HasSubstr("--seed"));
  EXPECT_THAT(refused({"--time", "1s", "--programs", "3"}), HasSubstr("--programs and --time"));
}

}  // namespace
}  // namespace precast::testing
