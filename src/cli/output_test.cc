#include "cli/output.h"

#include <precast/error.h>

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

namespace precast::cli {
namespace {

TEST(OutputTest, LinesEndOnce) {
  std::FILE* file = std::tmpfile();
  Output output(file);
  output.EndLine();
  output.Write("a");
  output.EndLine();
  output.EndLine();
  output.Write("");
  output.Write("b\n");
  output.EndLine();
  output.WriteNow("c");
  EXPECT_EQ(std::ftell(file), 5) << "a, b, two ends and c";
  EXPECT_FALSE(output.failed());
  EXPECT_FALSE(output.is_terminal());
  EXPECT_EQ(output.Bold("x") + output.Red("y"), "xy");
  std::fclose(file);
}

TEST(OutputTest, AFullDiskIsAnError) {
  std::FILE* full = std::fopen("/dev/full", "w");
  ASSERT_NE(full, nullptr);
  Output output(full);
  output.Write("buffered");
  try {
    output.Flush();
    ADD_FAILURE() << "must throw";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::io);
    EXPECT_EQ(error.message(), "cannot write to standard output: No space left on device");
  }
  EXPECT_TRUE(output.failed());
  std::fclose(full);
}

}  // namespace
}  // namespace precast::cli
