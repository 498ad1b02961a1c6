#include <precast/error.h>

#include <gtest/gtest.h>

#include <set>
#include <string_view>

namespace precast {
namespace {

TEST(Error, EveryCodeHasItsOwnName) {
  std::set<std::string_view> names;
  for (uint16_t code = 1; code <= 17; ++code) {
    std::string_view name = Name(static_cast<ErrorCode>(code));
    EXPECT_NE(name, "unknown") << code;
    EXPECT_TRUE(names.insert(name).second) << name;
  }
  EXPECT_EQ(Name(ErrorCode::out_of_range), "out_of_range");
  EXPECT_EQ(Name(static_cast<ErrorCode>(999)), "unknown");
}

TEST(Error, FailCarriesCodeMessageAndPlace) {
  try {
    Fail(ErrorCode::mismatch, "found {}, allowed {}", 3, "1 to 2");
    FAIL() << "must throw";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::mismatch);
    EXPECT_EQ(error.message(), "found 3, allowed 1 to 2");
    EXPECT_STREQ(error.what(), "found 3, allowed 1 to 2");
    EXPECT_TRUE(std::string_view(error.location().file_name()).ends_with("error_test.cc"));
  }
}

}  // namespace
}  // namespace precast
