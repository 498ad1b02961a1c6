#include "cli/names.h"

#include <precast/error.h>

#include <gtest/gtest.h>

namespace precast::cli {
namespace {

const std::vector<std::string> kNames = {"vector_add", "bgemm", "paged_attention"};

std::string MessageFor(std::string_view found) {
  try {
    FailUnknown("program", found, kNames);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::usage);
    return error.message();
  }
}

TEST(Names, NearestIsWhatWasMeant) {
  EXPECT_EQ(Nearest("vector_ad", kNames), "vector_add");
  EXPECT_EQ(Nearest("vectoradd", kNames), "vector_add");
  EXPECT_EQ(Nearest("bgem", kNames), "bgemm");
  EXPECT_EQ(Nearest("pagedattention", kNames), "paged_attention");
  EXPECT_EQ(Nearest("bgemm", kNames), "bgemm");
}

TEST(Names, NothingIsNearSomethingElse) {
  EXPECT_EQ(Nearest("softmax", kNames), "");
  EXPECT_EQ(Nearest("", kNames), "");
  EXPECT_EQ(Nearest("x", kNames), "");
  EXPECT_EQ(Nearest("x", {}), "");
  EXPECT_EQ(Nearest("--m", {"--n"}), "") << "dashes don't count";
  EXPECT_EQ(Nearest("--", {"--n"}), "");
  EXPECT_EQ(Nearest("--round", {"--rounds"}), "--rounds");
}

TEST(Names, UnknownOnesAreAnsweredWithTheKnownOnes) {
  EXPECT_EQ(MessageFor("softmax"),
            "there is no program 'softmax'; there are vector_add, bgemm, paged_attention");
  EXPECT_EQ(MessageFor("bgem"),
            "there is no program 'bgem'; did you mean bgemm? There are vector_add, bgemm, "
            "paged_attention");
}

}  // namespace
}  // namespace precast::cli
