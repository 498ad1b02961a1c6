#include "run/definition_store.h"

#include "platforms/sim/profile.h"
#include "platforms/sim/sim_driver.h"
#include "support/faulty_driver.h"
#include "support/image_samples.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace precast::run {
namespace {

using device::Call;

/// A definition of no task, which `mark` tells from others.
std::vector<char> Image(uint64_t mark) {
  abi::Header header{};
  header.total_bytes = sizeof(header);
  header.heap_bytes = mark;
  std::vector<char> image(sizeof(header));
  std::memcpy(image.data(), &header, sizeof(header));
  return image;
}

class DefinitionStoreTest : public testing::Test {
 protected:
  static constexpr DefinitionStore::Budget kBudget{.variants = 3, .bytes = 1 << 20};

  /// Claims a family and, if it has no variant, adds one; as a run does. Gives how many it had.
  size_t Use(const std::string& name, uint64_t mark, std::vector<Definition*> inner = {},
             size_t guard_bytes = 0) {
    std::vector<const Variant*> variants;
    Family* family = store_.Claim(name, &variants);
    size_t had = variants.size();
    if (had == 0) {
      Variant variant{.signature = GraphSignature({})};
      if (guard_bytes > 0) variant.guards = {{0, 0, std::vector<std::byte>(guard_bytes)}};
      variants.push_back(store_.Add(family, std::move(variant), Image(mark), inner, &shared_));
    }
    last_ = variants.back()->definition;
    store_.Upload(std::vector<Definition*>{last_}, arena_);
    store_.Release(family, variants);
    return had;
  }

  device::FaultyDriver driver_{std::make_unique<sim::SimDriver>(sim::A2a3Profile(), 1)};
  DefinitionStore store_{&driver_, kBudget};
  device::PinnedArena arena_{&driver_};
  Definition* last_ = nullptr;
  bool shared_ = false;
};

TEST_F(DefinitionStoreTest, NeitherNamesNorRecordingsOfOneDefinitionAccumulate) {
  for (int i = 0; i < 100; ++i) EXPECT_EQ(Use(std::to_string(i), 1), 0u);
  EXPECT_TRUE(shared_);
  DefinitionStore::Figures figures = store_.figures();
  EXPECT_EQ(figures.families, 3u);
  EXPECT_EQ(figures.variants, 3u);
  EXPECT_EQ(figures.definitions, 1u);
  EXPECT_EQ(figures.evicted, 0u);
  EXPECT_EQ(Use("99", 1), 1u);
  EXPECT_EQ(Use("3", 1), 0u);
}

TEST_F(DefinitionStoreTest, ANameThatNothingWasRecordedUnderIsForgotten) {
  std::vector<const Variant*> variants;
  Family* family = store_.Claim("empty", &variants);
  EXPECT_EQ(store_.figures().families, 1u);
  store_.Release(family, variants);
  EXPECT_EQ(store_.figures().families, 0u);
}

TEST_F(DefinitionStoreTest, TheLeastRecentlyUsedGoesAndOneThatIsClaimedStays) {
  Use("a", 1);
  std::vector<const Variant*> claimed;
  Family* family = store_.Claim("a", &claimed);
  for (uint64_t i = 2; i < 6; ++i) Use(std::to_string(i), i);
  EXPECT_EQ(store_.figures().variants, 3u);
  store_.Release(family, claimed);
  EXPECT_EQ(Use("a", 1), 1u);
  EXPECT_EQ(Use("5", 5), 1u);
  EXPECT_EQ(Use("2", 2), 0u);
}

TEST_F(DefinitionStoreTest, AnInnerDefinitionGoesWithTheLastThatNamesIt) {
  Use("inner", 1);
  Definition* inner = last_;
  Use("outer", 2, {inner});
  Use("x", 3);
  Use("y", 4);  // "inner" goes
  EXPECT_EQ(store_.figures().variants, 3u);
  EXPECT_EQ(store_.figures().definitions, 4u) << "it is named";
  Use("z", 5);  // "outer" goes
  EXPECT_EQ(store_.figures().definitions, 3u);
  EXPECT_EQ(store_.figures().evicted, 2u);
}

TEST_F(DefinitionStoreTest, GuardsCountToTheBudget) {
  Use("a", 1, {}, kBudget.bytes);
  EXPECT_EQ(store_.figures().variants, 0u);
  EXPECT_EQ(store_.figures().bytes, 0u);
  EXPECT_EQ(store_.figures().resident_bytes, 0u);
}

TEST_F(DefinitionStoreTest, MemoryThatIsNotGivenBackIsReportedInTheEnd) {
  Use("a", 1);
  driver_.FailNth(1, ErrorCode::io, {Call::free});
  EXPECT_GT(store_.Trim(true), 0u);
  EXPECT_TRUE(driver_.struck());
  EXPECT_EQ(store_.figures().definitions, 0u);
  EXPECT_EQ(Use("a", 1), 0u);
  auto error = store_.Close();
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->code(), ErrorCode::io);
  EXPECT_FALSE(store_.Close().has_value());
}

// Whatever bit of a definition that it keeps is flipped: the store notices before a byte of it is
// sent, so nothing that was damaged reaches the scheduler.
TEST_F(DefinitionStoreTest, ADefinitionThatChangedWhileItWasKeptIsNotUploaded) {
  test::ImageSample sample = test::NamedImageSample("nested");
  auto add = [&](const char* name, const test::TestImage& image, std::vector<Definition*> inner) {
    std::vector<const Variant*> variants;
    return store_
        .Add(store_.Claim(name, &variants), {.signature = GraphSignature({})},
             {image.data(), image.size()}, inner, &shared_)
        ->definition;
  };
  Definition* inner = add("inner", sample.definitions[0], {});
  Definition* outer = add("outer", sample.definitions[1], {inner});
  for (Definition* damaged : {inner, outer}) {
    for (uint64_t bit = 0; bit < damaged->bytes() * 8; ++bit) {
      uint64_t& word = damaged->image[bit / 64];
      word ^= uint64_t{1} << bit % 64;
      try {
        store_.Upload({&outer, 1}, arena_);
        FAIL() << "bit " << bit;
      } catch (const Error& error) {
        ASSERT_EQ(Name(error.code()), Name(ErrorCode::internal)) << error.message();
      }
      word ^= uint64_t{1} << bit % 64;
    }
  }
  EXPECT_EQ(driver_.calls(Call::allocate), 0u);
  EXPECT_EQ(driver_.calls(Call::copy_to_device), 0u);
  EXPECT_EQ(store_.Upload({&outer, 1}, arena_), inner->bytes() + outer->bytes());
  EXPECT_EQ(driver_.calls(Call::copy_to_device), 1u);
}

}  // namespace
}  // namespace precast::run
