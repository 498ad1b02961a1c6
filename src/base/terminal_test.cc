#include "base/terminal.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

namespace precast {
namespace {

TEST(Terminal, APipeAndAFileAreNone) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_FALSE(IsTerminal(ends[1]));
  EXPECT_FALSE(UseColor(ends[1]));
  EXPECT_EQ(TerminalColumns(ends[1]), 100);
  close(ends[0]);
  close(ends[1]);
  EXPECT_FALSE(IsTerminal(-1));
}

TEST(Terminal, NoColorAndDumbTerminalsAreRespected) {
  int primary = posix_openpt(O_RDWR | O_NOCTTY);
  if (primary < 0) GTEST_SKIP() << "no pseudo-terminals here";
  ASSERT_EQ(setenv("TERM", "xterm", 1), 0);
  ASSERT_EQ(unsetenv("NO_COLOR"), 0);
  EXPECT_TRUE(IsTerminal(primary));
  EXPECT_TRUE(UseColor(primary));
  setenv("NO_COLOR", "", 1);
  EXPECT_TRUE(UseColor(primary)) << "empty counts as unset";
  setenv("NO_COLOR", "1", 1);
  EXPECT_FALSE(UseColor(primary));
  unsetenv("NO_COLOR");
  setenv("TERM", "dumb", 1);
  EXPECT_FALSE(UseColor(primary));
  close(primary);
}

}  // namespace
}  // namespace precast
