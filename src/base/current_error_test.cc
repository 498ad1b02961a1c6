#include "base/current_error.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace precast {
namespace {

template <typename T>
Error Caught(const T& thrown) {
  try {
    throw T(thrown);
  } catch (...) {
    return CurrentError(ErrorCode::kernel_failed, "task 1: ");
  }
}

struct Mute : std::exception {
  const char* what() const noexcept override { return nullptr; }
};

TEST(CurrentErrorTest, AnErrorKeepsItsCode) {
  Error error = Caught(Error(ErrorCode::not_found, "no such thing"));
  EXPECT_EQ(error.code(), ErrorCode::not_found);
  EXPECT_EQ(error.message(), "task 1: no such thing");
}

TEST(CurrentErrorTest, ForeignCodeCannotReportUsage) {
  EXPECT_EQ(Caught(Error(ErrorCode::usage, "x")).code(), ErrorCode::kernel_failed);
}

TEST(CurrentErrorTest, OthersGetTheGivenCode) {
  EXPECT_EQ(Caught(std::runtime_error("why")).message(), "task 1: why");
  EXPECT_EQ(Caught(std::runtime_error("why")).code(), ErrorCode::kernel_failed);
  EXPECT_EQ(Caught(Mute()).message(), "task 1: (no message)");
  EXPECT_EQ(Caught(7).message(), "task 1: an object that is not a std::exception");
}

}  // namespace
}  // namespace precast
