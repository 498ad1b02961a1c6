// Images of every kind, written by graph::Builder, for tests that damage them. They may be executed
// whatever was done to them, once the validator has let them pass: their kernels only read, and
// only a few elements of each tensor.
//
// Addresses in them are 0: `LinkSlots` and `LinkDefinitions` fill them in.
#pragma once

#include "support/test_graph.h"

#include <precast/kernel.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace precast::test {

/// The image of a run, and the definitions that it names.
struct ImageSample {
  std::string name;
  std::vector<TestImage> definitions;  ///< inner ones first; kept as a definition store keeps them
  TestImage run;
};

/// A new one of each.
std::vector<ImageSample> ImageSamples();

/// The one of that name: "everything", "graphs", "nested" …
ImageSample NamedImageSample(std::string_view name);

/// The kernels that the images name by index.
std::span<const Kernel> SampleKernels();

/// The definitions that an image names by their hash, by number. Throws `std::logic_error` when one
/// is not there. Requires: the image has passed the validator.
std::vector<const abi::Header*> DefinitionsOf(const TestImage& image,
                                              std::span<const TestImage> definitions);

/// Gives an image the addresses of the definitions that it names.
void LinkDefinitions(TestImage& image, std::span<const abi::Header* const> definitions);

/// Gives an image memory for its slots: as much as they take, and not a byte more.
void LinkSlots(TestImage& image, std::vector<TestImage>* memory);

}  // namespace precast::test
