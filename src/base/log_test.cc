#include "base/log.h"

#include <precast/error.h>

#include <gtest/gtest.h>

#include <string>

namespace precast {
namespace {

TEST(Log, ShowsItsLevelAndAbove) {
  ::testing::internal::CaptureStderr();
  Log log;
  log.Trace("a {}", 1);
  log.Debug("b");
  log.Info("c");
  log.Warn("{} MiB of {}", 3, "memory");
  log.Error("{{braces}} in text");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "precast: warning: 3 MiB of memory\nprecast: error: {braces} in text\n");
}

TEST(Log, LogsAreIndependent) {
  ::testing::internal::CaptureStderr();
  Log quiet(LogLevel::off), chatty(LogLevel::trace);
  quiet.Error("never");
  chatty.Trace("seen");
  Log moved = std::move(chatty);
  moved.set_level(LogLevel::error);
  moved.Warn("hidden");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "precast: trace: seen\n");
}

TEST(Log, LevelsByName) {
  for (auto level : {LogLevel::trace, LogLevel::debug, LogLevel::info, LogLevel::warn,
                     LogLevel::error, LogLevel::off}) {
    EXPECT_EQ(ParseLogLevel(Name(level)), level);
  }
  try {
    ParseLogLevel("loud");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::usage);
    EXPECT_EQ(error.message(),
              "there is no log level 'loud'; there are trace, debug, info, warn, error, off");
  }
}

}  // namespace
}  // namespace precast
