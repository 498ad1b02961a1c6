// The kept corpus, in every build: each input is answered or refused, and no sanitizer objects.
#include "parsers/target.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace precast::test {
namespace {

namespace fs = std::filesystem;

class CorpusTest : public testing::TestWithParam<NamedTarget> {};
INSTANTIATE_TEST_SUITE_P(Targets, CorpusTest, testing::ValuesIn(kTargets),
                         [](const auto& target) { return std::string(target.param.name); });

TEST_P(CorpusTest, EveryInputIsAnsweredOrRefused) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(fs::path(PRECAST_SOURCE_DIR) /
                                                  "tests/parsers/corpus" / GetParam().name)) {
    files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  ASSERT_FALSE(files.empty());
  for (const fs::path& file : files) {
    SCOPED_TRACE(file.filename());
    std::ifstream in(file, std::ios::binary);
    std::vector<uint8_t> bytes{std::istreambuf_iterator<char>(in), {}};
    EXPECT_NO_THROW(GetParam().run(bytes));
  }
}

}  // namespace
}  // namespace precast::test
