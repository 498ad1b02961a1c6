// For tests of kernels that use vectors: each is run with every width that the processor has.
#pragma once

#include "common/simd.h"

#include <gtest/gtest.h>

namespace precast::examples {

/// Parameter: floats in a register; skipped where the processor has no such registers.
class EveryWidth : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
#if defined(__x86_64__)
    if (static_cast<size_t>(GetParam()) > widest_) GTEST_SKIP() << "this processor has not got it";
    detail::width = static_cast<size_t>(GetParam());
#endif
  }
  void TearDown() override {
#if defined(__x86_64__)
    detail::width = widest_;
#endif
  }

 private:
#if defined(__x86_64__)
  size_t widest_ = detail::width;
#endif
};

}  // namespace precast::examples
