#include "base/failing_new_test.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

namespace precast::test {
namespace {

constinit thread_local uint64_t remaining = 0;  // allocations until one fails; 0: none will
constinit thread_local bool has_struck = false;
constinit thread_local uint64_t made = 0;  // allocations

}  // namespace

FailNew::FailNew(uint64_t n) {
  has_struck = false;
  remaining = n;
}
FailNew::~FailNew() { remaining = 0; }
bool FailNew::struck() const { return has_struck; }

CountNew::CountNew() : before_(made) {}
uint64_t CountNew::count() const { return made - before_; }

namespace {

[[maybe_unused]] void* Allocate(size_t bytes, size_t alignment) {
  ++made;
  if (remaining > 0 && --remaining == 0) {
    has_struck = true;
    return nullptr;
  }
  alignment = std::max(alignment, alignof(std::max_align_t));
  return std::aligned_alloc(alignment,
                            (std::max<size_t>(bytes, 1) + alignment - 1) / alignment * alignment);
}

TEST(FailNewTest, TheNthAllocationFailsOnce) {
  if (!FailNew::kWorks) GTEST_SKIP() << "sanitizers have operators of their own";
  struct alignas(64) Wide {
    char bytes[64];
  };
  CountNew count;
  FailNew fail(2);
  auto first = std::make_unique<int>(1);
  EXPECT_FALSE(fail.struck());
  EXPECT_THROW(std::make_unique<Wide>(), std::bad_alloc);
  EXPECT_TRUE(fail.struck());
  EXPECT_NE(std::make_unique<Wide>(), nullptr);
  EXPECT_GE(count.count(), 3u);
}

}  // namespace
}  // namespace precast::test

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

// The forms for arrays and those that do not throw call these. Inlined, they would look like pairs
// of new and free to the compiler.
[[gnu::noinline]] void* operator new(size_t bytes) {
  void* memory = precast::test::Allocate(bytes, 0);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void* operator new(size_t bytes, std::align_val_t alignment) {
  void* memory = precast::test::Allocate(bytes, static_cast<size_t>(alignment));
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
}

#endif
