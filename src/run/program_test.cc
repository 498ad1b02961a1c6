#include <precast/error.h>
#include <precast/program.h>

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>

namespace precast {
namespace {

void ExpectError(ErrorCode code, const std::string& message, const std::function<void()>& call) {
  try {
    call();
    ADD_FAILURE() << "no error; expected: " << message;
  } catch (const Error& error) {
    EXPECT_EQ(Name(error.code()), Name(code));
    EXPECT_EQ(error.message(), message);
  }
}

Params Make(const std::string& tokens) {
  Params params({{"prompt", "Hello", "text to start with"}, {"tokens", "50", "how many"}});
  params.Set("tokens", tokens);
  return params;
}

TEST(ParamsTest, DefaultsAndValues) {
  Params params({{"prompt", "Hello", ""}, {"tokens", "50", ""}});
  EXPECT_EQ(params.Text("prompt"), "Hello");
  EXPECT_EQ(params.Integer("tokens", 1, 100), 50);
  params.Set("prompt", "");
  params.Set("tokens", "-7");
  EXPECT_EQ(params.Text("prompt"), "");
  EXPECT_EQ(params.Integer("tokens", -7, -7), -7);
}

TEST(ParamsTest, UnknownNames) {
  Params params({{"prompt", "", ""}, {"tokens", "", ""}});
  std::string message = "there is no parameter 'top'; there are prompt, tokens";
  ExpectError(ErrorCode::not_found, message, [&] { params.Set("top", "1"); });
  ExpectError(ErrorCode::not_found, message, [&] { params.Text("top"); });
  ExpectError(ErrorCode::not_found, message, [&] { params.Integer("top", 0, 1); });
  ExpectError(ErrorCode::not_found, message, [&] { params.Number("top", 0, 1); });
  ExpectError(ErrorCode::not_found, "there is no parameter 'x': this program has none",
              [] { Params().Set("x", "1"); });
}

TEST(ParamsTest, Integers) {
  EXPECT_EQ(Make("0").Integer("tokens", 0, 9), 0);
  EXPECT_EQ(Make("-9223372036854775808").Integer("tokens", INT64_MIN, INT64_MAX), INT64_MIN);
  for (const char* bad : {"", "ten", "1.5", "10x", " 10", "+10", "0", "101", "1e2",
                          "9223372036854775808", "-99999999999999999999"}) {
    ExpectError(
        ErrorCode::usage,
        "parameter tokens is '" + std::string(bad) + "'; allowed: a whole number from 1 to 100",
        [&] { Make(bad).Integer("tokens", 1, 100); });
  }
}

TEST(ParamsTest, Numbers) {
  EXPECT_EQ(Make("0.25").Number("tokens", 0, 1), 0.25);
  EXPECT_EQ(Make("1e-3").Number("tokens", 0, 1), 1e-3);
  EXPECT_EQ(Make("1").Number("tokens", 0, 1), 1.0);
  for (const char* bad : {"", "x", "1.5", "-0.1", "nan", "inf", "0.5 ", "0,5", "1e999"}) {
    ExpectError(ErrorCode::usage,
                "parameter tokens is '" + std::string(bad) + "'; allowed: a number from 0 to 1",
                [&] { Make(bad).Number("tokens", 0, 1); });
  }
}

}  // namespace
}  // namespace precast
