// TestGraph: an image in ordinary memory, written by graph::Builder, for tests below the public
// API. Device addresses are pointers: the distance of the address space is 0.
//
//   TestGraph g;
//   Tensor x = g.Data<float>({100});
//   g.Submit(g.Kernel(Scale), {inout(x), 2.0f}, {.blocks = 4});
//   TestImage image = g.Seal();
//   sched::RunOracle(g.Instance(image), {}, &completed);
//   EXPECT_EQ(g.Values<float>(x)[0], …);
#pragma once

#include "abi/image.h"
#include "base/tensor_access.h"
#include "graph/builder.h"
#include "sched/instance.h"
#include "sched/kernel_table.h"

#include <precast/argument.h>
#include <precast/kernel.h>
#include <precast/tensor.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace precast::test {

/// Bytes aligned like an image.
class TestImage {
 public:
  explicit TestImage(uint64_t bytes = 0) { Resize(bytes, 0); }
  TestImage(const TestImage& other) { *this = other; }
  TestImage& operator=(const TestImage& other) {
    Resize(other.bytes_, 0);
    std::memcpy(data(), other.data(), bytes_);
    return *this;
  }
  TestImage(TestImage&&) = default;
  TestImage& operator=(TestImage&&) = default;

  /// Keeps the first `used` bytes.
  void Resize(uint64_t bytes, uint64_t used) {
    // Exactly as large as asked, so that the address sanitizer sees what lies beyond.
    void* memory = nullptr;
    if (posix_memalign(&memory, abi::kUnit, bytes > 0 ? bytes : 1) != 0) throw std::bad_alloc();
    std::unique_ptr<void, Free> fresh(memory);
    if (used > 0) std::memcpy(memory, memory_.get(), used);
    memory_ = std::move(fresh);
    bytes_ = bytes;
  }
  char* data() const { return static_cast<char*>(memory_.get()); }
  uint64_t size() const { return bytes_; }
  abi::Header* header() const { return static_cast<abi::Header*>(memory_.get()); }
  std::span<const std::byte> span() const {
    return {static_cast<const std::byte*>(memory_.get()), bytes_};
  }
  uint64_t address() const { return reinterpret_cast<uint64_t>(memory_.get()); }

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  std::unique_ptr<void, Free> memory_;
  uint64_t bytes_ = 0;
};

class TestGraph {
 public:
  struct Options {
    uint32_t blocks = 1;
    std::string_view name = {};
    std::vector<abi::TaskId> after = {};
    const Predicate* when = nullptr;
  };

  explicit TestGraph(uint64_t heap_budget = uint64_t{1} << 30) {
    memory_.grow = [this](graph::ImageMemory& self, uint64_t bytes, uint64_t used) {
      arena_.Resize(std::max(bytes, self.capacity * 2), used);
      self.data = arena_.data();
      self.capacity = arena_.size();
      ++growths_;
    };
    builder_.set_kernel_name([this](const graph::TaskSpec& spec) {
      return std::string(spec.kernel < kernels_.size() ? kernels_[spec.kernel].name : "none");
    });
    builder_.Begin(&memory_, 7, heap_budget);
    builder_.OpenScope();
  }
  TestGraph(const TestGraph&) = delete;
  TestGraph& operator=(const TestGraph&) = delete;

  /// A buffer outside of the graph heap, filled with zeros.
  template <Element T>
  Tensor Data(const Shape& shape) {
    T like{};
    Tensor view = Tensor::host(&like, shape);
    uint64_t bytes = view.extent_bytes();
    uint32_t slot = builder_.AddSlot();
    uint32_t buffer = builder_.AddBuffer(graph::Builder::BufferKind::device, slot, 0, bytes, false);
    storage_.resize(slot + 1);
    storage_[slot].resize(bytes);
    return builder_.MakeTensor(view, buffer, 0, false);
  }

  uint32_t Kernel(const precast::Kernel& kernel) {
    for (uint32_t i = 0; i < kernels_.size(); ++i) {
      if (kernels_[i].function == kernel.function) return i;
    }
    kernels_.push_back(kernel);
    return static_cast<uint32_t>(kernels_.size() - 1);
  }

  abi::TaskId Submit(uint32_t kernel, ArgList args, const Options& options) {
    graph::TaskSpec spec;
    spec.kernel = kernel;
    return Append(spec, args, options);
  }
  abi::TaskId Submit(uint32_t kernel, ArgList args) { return Submit(kernel, args, {}); }
  abi::TaskId Submit(const abi::Mix& mix, ArgList args, const Options& options) {
    graph::TaskSpec spec;
    spec.mix = &mix;
    return Append(spec, args, options);
  }

  graph::Builder& builder() { return builder_; }
  std::span<const precast::Kernel> kernels() const { return kernels_; }
  int growths() const { return growths_; }
  /// What has been written so far, without sections.
  const abi::Task* Task(abi::TaskId id) const { return abi::TaskAt(memory_.data, id); }
  const char* bytes() const { return memory_.data; }

  /// A fresh image; it may be executed once.
  TestImage Seal() {
    storage_.resize(builder_.slots());
    storage_[0].resize(std::max(storage_[0].size(), builder_.heap().peak_bytes()));
    std::vector<abi::Slot> slots;
    for (std::vector<char>& bytes : storage_) {
      slots.push_back({reinterpret_cast<uint64_t>(bytes.data()), bytes.size()});
    }
    uint64_t size = builder_.Seal(slots);
    TestImage image(size);
    std::memcpy(image.data(), memory_.data, size);
    return image;
  }

  /// The same as a definition; `slots` with the heap first.
  TestImage SealDefinition(std::span<const abi::Slot> slots, uint32_t scalars) {
    TestImage image(builder_.SealDefinition(slots, scalars));
    std::memcpy(image.data(), memory_.data, image.size());
    return image;
  }

  sched::Instance Instance(const TestImage& image) {
    table_.Load(0, kernels_);
    return sched::Instance(image.data(), table_, space_);
  }

  template <Element T>
  std::span<T> Values(const Tensor& tensor) {
    using detail::TensorAccess;
    const graph::Buffer& buffer = builder_.buffer(TensorAccess::Buffer(tensor));
    char* data = storage_[buffer.slot].data() + buffer.base + TensorAccess::Offset(tensor);
    return {reinterpret_cast<T*>(data), static_cast<size_t>(tensor.size())};
  }
  /// The bytes behind all slots.
  std::vector<std::vector<char>>& storage() { return storage_; }
  /// Sets every byte of every slot.
  void Fill(char value) {
    for (std::vector<char>& bytes : storage_) std::fill(bytes.begin(), bytes.end(), value);
  }

 private:
  abi::TaskId Append(graph::TaskSpec& spec, ArgList args, const Options& options) {
    spec.blocks = options.blocks;
    spec.name = options.name;
    spec.after = options.after;
    if (options.when != nullptr) {
      spec.predicate = &options.when->element;
      spec.compare = options.when->compare;
      spec.constant = options.when->constant;
    }
    return builder_.Submit(spec, args);
  }

  TestImage arena_;
  graph::ImageMemory memory_;
  graph::Builder builder_;
  std::vector<precast::Kernel> kernels_;
  std::vector<std::vector<char>> storage_ = std::vector<std::vector<char>>(1);
  sched::KernelTable table_;
  sched::AddressSpace space_;
  int growths_ = 0;
};

}  // namespace precast::test
