#include "fuzz/kernels.h"

#include <chrono>
#include <cstring>
#include <thread>

namespace precast::fuzz {

namespace {

// Fields of a setup, from the lowest bit on.
constexpr uint64_t kKernelsBits = 2, kPauseBits = 12, kCountBits = 4, kTypeBits = 4;

/// A tensor argument as bytes; the views of kernels are typed.
struct Elements {
  char* data;
  size_t bytes;  // of an element
  int rank;
  int64_t shape[kMaxRank], stride[kMaxRank];
  int64_t size;

  char* At(int64_t i) const {
    int64_t offset = 0;
    for (int axis = rank - 1; axis >= 0; --axis) {
      offset += i % shape[axis] * stride[axis];
      i /= shape[axis];
    }
    return data + offset * static_cast<int64_t>(bytes);
  }
};

Elements ElementsOf(const KernelContext& k, size_t i, bool writes) {
  Elements result{};
  auto take = [&](const auto& view) {
    using T = std::remove_reference_t<decltype(*view.data())>;
    result.data = reinterpret_cast<char*>(const_cast<std::remove_const_t<T>*>(view.data()));
    result.bytes = sizeof(T);
    result.rank = view.rank();
    result.size = view.size();
    for (int axis = 0; axis < view.rank(); ++axis) {
      result.shape[axis] = view.shape(axis);
      result.stride[axis] = view.stride(axis);
    }
  };
  WithType(k.dtype(i),
           [&]<typename T>() { writes ? take(k.tensor<T>(i)) : take(k.tensor<const T>(i)); });
  return result;
}

uint64_t Load(const char* at, size_t bytes) {
  uint64_t value = 0;
  std::memcpy(&value, at, bytes);
  return value;
}

void Store(char* at, size_t bytes, bool is_bool, uint64_t value) {
  if (is_bool) value &= 1;
  std::memcpy(at, &value, bytes);
}

void Block(const KernelContext& k, uint64_t kernel) {
  auto number = [&](size_t i) { return k.scalar<uint64_t>(i); };
  uint64_t setup = number(kPassedScalars + 1), modes = number(kPassedScalars + 2);
  auto take = [&setup](uint64_t bits) {
    uint64_t field = setup & ((uint64_t{1} << bits) - 1);
    setup >>= bits;
    return field;
  };
  uint64_t kernels = take(kKernelsBits), pause = take(kPauseBits), count = take(kCountBits);
  auto* recorder = reinterpret_cast<Recorder*>(number(0));
  uint64_t part = k.block() * kernels + kernel, parts = k.blocks() * kernels;
  uint64_t index = part;
  for (size_t i = 1; i <= kPassedScalars; ++i) index += number(i);
  Record* record = recorder->At(index);
  if (record == nullptr) k.fail("was given scalars of no record");
  record->start = recorder->Ticket();
  if (pause != 0 && recorder->pauses()) {
    std::this_thread::sleep_for(std::chrono::microseconds(pause));
  }

  uint64_t hash = Mix(number(kPassedScalars + 3) + part);
  for (size_t i = 0; i < count; ++i) {
    WithType(static_cast<DType>(take(kTypeBits)), [&]<typename T>() {
      T value = k.scalar<T>(kKernelScalars + i);
      hash = Mix(hash ^ Load(reinterpret_cast<const char*>(&value), sizeof(T)));
    });
  }
  auto begin_of = [&](int64_t size, uint64_t n) {
    return static_cast<int64_t>(static_cast<uint64_t>(size) * n / parts);
  };
  for (size_t i = 0; i < k.tensors(); ++i) {
    auto mode = static_cast<Mode>((modes >> (2 * i)) & 3);
    if (mode == Mode::write) continue;
    Elements tensor = ElementsOf(k, i, mode == Mode::read_write);
    bool whole = mode == Mode::read;
    int64_t end = whole ? tensor.size : begin_of(tensor.size, part + 1);
    for (int64_t at = whole ? 0 : begin_of(tensor.size, part); at < end; ++at) {
      hash = Mix(hash ^ Load(tensor.At(at), tensor.bytes));
    }
  }
  record->hash = hash;
  for (size_t i = 0; i < k.tensors(); ++i) {
    auto mode = static_cast<Mode>((modes >> (2 * i)) & 3);
    if (mode == Mode::read || mode == Mode::read_own) continue;
    Elements tensor = ElementsOf(k, i, true);
    bool is_bool = k.dtype(i) == DType::boolean;
    int64_t end = begin_of(tensor.size, part + 1);
    for (int64_t at = begin_of(tensor.size, part); at < end; ++at) {
      Store(tensor.At(at), tensor.bytes, is_bool, Mix(hash + i * 7919 + static_cast<uint64_t>(at)));
    }
  }
  record->end = recorder->Ticket();
}

PRECAST_KERNEL(fuzz_vector, Core::vector)(const KernelContext& k) {
  // In a mixed task the cube kernel is the first.
  bool mixed = (k.scalar<uint64_t>(kPassedScalars + 1) & ((1u << kKernelsBits) - 1)) > 1;
  Block(k, mixed ? 1 + k.sub_block() : 0);
}
PRECAST_KERNEL(fuzz_cube, Core::cube)(const KernelContext& k) { Block(k, 0); }

}  // namespace

const Kernel kVectorKernel = fuzz_vector, kCubeKernel = fuzz_cube;

std::vector<Kernel> Kernels() { return {kVectorKernel, kCubeKernel}; }

uint64_t Mix(uint64_t x) {  // the finalizer of splitmix64
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

uint64_t SetupOf(const Item& item) {
  uint64_t setup = 0;
  for (size_t i = item.scalars.size(); i-- > 0;) {
    setup = setup << kTypeBits | static_cast<uint64_t>(item.scalars[i].dtype);
  }
  setup = setup << kCountBits | item.scalars.size();
  setup = setup << kPauseBits | item.pause_us;
  return setup << kKernelsBits | KernelsOf(item.form);
}

uint64_t ModesOf(const Item& item) {
  uint64_t modes = 0;
  for (size_t i = item.uses.size(); i-- > 0;) {
    const Use& use = item.uses[i];
    Mode mode = use.own ? Mode::read_own : Mode::read;
    if (use.direction == Direction::out || use.stores) mode = Mode::write;
    if (use.direction == Direction::inout) mode = Mode::read_write;
    modes = modes << 2 | static_cast<uint64_t>(mode);
  }
  return modes;
}

std::vector<std::byte> RandomBytes(DType dtype, int64_t count, uint64_t salt) {
  size_t size = SizeOf(dtype);
  std::vector<std::byte> bytes(static_cast<size_t>(count) * size);
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    Store(reinterpret_cast<char*>(&bytes[i * size]), size, dtype == DType::boolean, Mix(salt + i));
  }
  return bytes;
}

}  // namespace precast::fuzz
