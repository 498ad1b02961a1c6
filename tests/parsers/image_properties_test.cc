// What the validator promises about images that the builder has written.
#include "graph/content_hash.h"
#include "graph/validator.h"
#include "support/image_samples.h"

#include <precast/error.h>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace precast::graph {
namespace {

using test::DefinitionsOf;
using test::ImageSample;
using test::TestImage;

/// What the validator says; empty when it accepts.
std::string Complaint(const TestImage& image, const ValidateOptions& options) {
  try {
    Validate(image.span(), options);
  } catch (const Error& error) {
    EXPECT_EQ(Name(error.code()), Name(ErrorCode::bad_file));
    return error.message();
  }
  return "";
}

TEST(ImagePropertiesTest, TheValidatorAcceptsWhatTheBuilderWrites) {
  for (const ImageSample& sample : test::ImageSamples()) {
    SCOPED_TRACE(sample.name);
    for (const TestImage& definition : sample.definitions) {
      auto inner = DefinitionsOf(definition, sample.definitions);
      EXPECT_EQ(
          Complaint(
              definition,
              {.kind = ImageKind::definition, .kernels = 3, .stored = true, .definitions = inner}),
          "");
    }
    auto definitions = DefinitionsOf(sample.run, sample.definitions);
    EXPECT_EQ(Complaint(sample.run, {.kernels = 3, .definitions = definitions}), "");
  }
}

TEST(ImagePropertiesTest, ARunIsNoDefinitionAndTheOtherWayRound) {
  for (const ImageSample& sample : test::ImageSamples()) {
    SCOPED_TRACE(sample.name);
    EXPECT_NE(Complaint(sample.run, {.kind = ImageKind::definition}), "");
    for (const TestImage& definition : sample.definitions) {
      EXPECT_NE(Complaint(definition, {.kind = ImageKind::run}), "");
    }
  }
}

/// Each flip of a bit of an image that was kept is refused.
void ExpectEveryFlipRefused(const TestImage& image, const ValidateOptions& options) {
  ASSERT_EQ(Complaint(image, options), "");
  TestImage broken = image;
  for (uint64_t bit = 0; bit < image.size() * 8; ++bit) {
    char& byte = broken.data()[bit / 8];
    byte = static_cast<char>(byte ^ (1 << bit % 8));
    ASSERT_NE(Complaint(broken, options), "") << "bit " << bit;
    byte = image.data()[bit / 8];
  }
}

TEST(ImagePropertiesTest, EveryFlipOfABitOfAStoredDefinitionIsRefused) {
  for (const ImageSample& sample : test::ImageSamples()) {
    SCOPED_TRACE(sample.name);
    for (const TestImage& definition : sample.definitions) {
      ExpectEveryFlipRefused(definition, {.kind = ImageKind::definition, .stored = true});
    }
  }
}

TEST(ImagePropertiesTest, EveryFlipOfABitOfASavedRunIsRefused) {
  for (ImageSample& sample : test::ImageSamples()) {
    SCOPED_TRACE(sample.name);
    sample.run.header()->content_hash = ContentHash(sample.run.span());
    ExpectEveryFlipRefused(sample.run, {.stored = true});
  }
}

TEST(ImagePropertiesTest, WhatAGraphTaskBindsIsComparedWithItsDefinition) {
  ImageSample sample = test::NamedImageSample("graphs");
  auto definitions = DefinitionsOf(sample.run, sample.definitions);
  abi::Header& header = *sample.run.header();
  abi::Task* task = abi::TaskAt(sample.run.data(), abi::kFirstTask);
  auto* bindings = abi::At<abi::Binding>(sample.run.data(), header.bindings);
  auto* slots = abi::At<abi::Slot>(sample.run.data(), header.slots);
  auto expect = [&](const char* words) {
    std::string complaint = Complaint(sample.run, {.definitions = definitions});
    EXPECT_NE(complaint.find(words), std::string::npos) << complaint;
  };
  auto changed = [&](auto& field, auto value, const char* words) {
    auto before = field;
    field = value;
    expect(words);
    field = before;
  };
  changed(task->tensors, uint16_t{1}, "task 0: 1 places and 1 scalars for definition 0");
  changed(task->scalars, uint16_t{0}, "task 0: 2 places and 0 scalars for definition 0");
  changed(bindings[task->blocks], abi::PlaceBinding(1, 72),
          "task 0: slot 1 of definition 0 takes 64 bytes from byte 72 of slot 1, which has 128");
  changed(slots[0].bytes, uint64_t{300}, "task 0: scratch up to byte");
  changed(abi::At<abi::Definition>(sample.run.data(), header.definitions)->hash, uint64_t{1},
          "definitions[0]: hash 0x1, that definition has");
  EXPECT_EQ(Complaint(sample.run, {.definitions = definitions}), "");
}

TEST(ImagePropertiesTest, ARunHasNoScalarsToBindTo) {
  ImageSample sample = test::NamedImageSample("everything");
  sample.run.header()->scalars = 1;
  EXPECT_EQ(Complaint(sample.run, {}),
            "invalid image: header: scalars is 1 in the image of a run (0 allowed)");
}

}  // namespace
}  // namespace precast::graph
