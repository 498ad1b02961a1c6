#include "scenes/scene.h"

#include <algorithm>
#include <cstring>

namespace precast::scenes {
namespace {

constexpr size_t kGuardBytes = 64;
constexpr std::byte kGuard{0xee};

/// Host memory with guard bytes on both sides.
class GuardedBytes {
 public:
  explicit GuardedBytes(const std::vector<std::byte>& bytes)
      : memory_(bytes.size() + 2 * kGuardBytes, kGuard) {
    std::ranges::copy(bytes, data());
  }
  std::byte* data() { return memory_.data() + kGuardBytes; }
  std::vector<std::byte> bytes() const {
    return {memory_.begin() + kGuardBytes, memory_.end() - kGuardBytes};
  }
  bool intact() const {
    auto is_guard = [](std::byte value) { return value == kGuard; };
    return std::all_of(memory_.begin(), memory_.begin() + kGuardBytes, is_guard) &&
           std::all_of(memory_.end() - kGuardBytes, memory_.end(), is_guard);
  }

 private:
  std::vector<std::byte> memory_;
};

template <Element T>
T Convert(double value) {
  if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16>) {
    return T(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

Tensor HostTensor(DType dtype, void* data, const Shape& shape) {
  Tensor tensor;
  ForEachElementType([&]<typename T>() {
    if (kDTypeOf<T> == dtype) tensor = Tensor::host(static_cast<T*>(data), shape);
  });
  return tensor;
}

/// The buffers of one run, where the scene wants them.
class Placed {
 public:
  Placed(Worker& worker, const Scene& scene) : worker_(worker), scene_(scene) {
    Memory initial(scene.buffers);
    for (size_t i = 0; i < scene.buffers.size(); ++i) {
      const Buffer& buffer = scene.buffers[i];
      host_.emplace_back(initial.bytes(i));
      if (!buffer.device) {
        tensors_.push_back(HostTensor(buffer.dtype, host_[i].data(), buffer.shape));
        continue;
      }
      tensors_.push_back(worker.malloc(buffer.shape, buffer.dtype));
      worker.copy_to(tensors_[i], initial.bytes(i).data(), initial.bytes(i).size());
    }
  }
  ~Placed() {
    for (size_t i = 0; i < tensors_.size(); ++i) {
      if (scene_.buffers[i].device) worker_.free(tensors_[i]);
    }
  }
  Placed(const Placed&) = delete;
  Placed& operator=(const Placed&) = delete;

  std::vector<Arg> Args() const {
    if (scene_.args) return scene_.args(tensors_);
    std::vector<Arg> args;
    for (size_t i = 0; i < tensors_.size(); ++i) {
      args.emplace_back(scene_.buffers[i].direction, tensors_[i]);
    }
    return args;
  }

  void Collect(SceneResult* result) {
    for (size_t i = 0; i < tensors_.size(); ++i) {
      std::vector<std::byte>& bytes = result->memory.bytes(i);
      if (scene_.buffers[i].device) {
        worker_.copy_from(bytes.data(), tensors_[i], bytes.size());
      } else {
        bytes = host_[i].bytes();
        result->guards_intact = result->guards_intact && host_[i].intact();
      }
    }
  }

 private:
  Worker& worker_;
  const Scene& scene_;
  std::vector<GuardedBytes> host_;
  std::vector<Tensor> tensors_;
};

}  // namespace

double Counting(int64_t i) { return static_cast<double>(i % 97 + 1); }

void StoreElement(DType dtype, double value, void* target) {
  ForEachElementType([&]<typename T>() {
    if (kDTypeOf<T> != dtype) return;
    T element = Convert<T>(value);
    std::memcpy(target, &element, sizeof(T));
  });
}

Memory::Memory(const std::vector<Buffer>& buffers) {
  for (const Buffer& buffer : buffers) {
    size_t size = SizeOf(buffer.dtype);
    std::vector<std::byte> bytes(static_cast<size_t>(buffer.shape.size()) * size);
    for (size_t i = 0; i * size < bytes.size(); ++i) {
      StoreElement(buffer.dtype, buffer.init(static_cast<int64_t>(i)), &bytes[i * size]);
    }
    buffers_.push_back(std::move(bytes));
  }
}

SceneResult RunScene(Worker& worker, const Scene& scene, RunOptions options) {
  if (scene.options.heap) options.heap = scene.options.heap;
  SceneResult result{Memory(scene.buffers), {}};
  Placed placed(worker, scene);
  result.report = worker.run(scene.build, placed.Args(), options);
  placed.Collect(&result);
  return result;
}

}  // namespace precast::scenes
