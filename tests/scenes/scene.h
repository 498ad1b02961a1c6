// Scene: a small orchestration that tests one rule of what a run means, with its data and, where
// that is easy, what a plain loop computes from it. Scenes are one table (scenes.h) for tests and
// benchmarks.
#pragma once

#include <precast/precast.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace precast::scenes {

/// The value of element `i` of a buffer before the run.
using Init = std::function<double(int64_t i)>;

/// i % 97 + 1: every dtype holds it exactly.
double Counting(int64_t i);

/// One buffer of a scene, and the argument that it is by default.
struct Buffer {
  Direction direction = Direction::in;
  Shape shape;
  DType dtype = DType::i64;
  Init init = Counting;
  bool device = false;  ///< child memory instead of host memory
};
inline Buffer In(const Shape& shape, DType dtype = DType::i64, Init init = Counting) {
  return {Direction::in, shape, dtype, std::move(init)};
}
inline Buffer Out(const Shape& shape, DType dtype = DType::i64) {
  return {Direction::out, shape, dtype};
}
inline Buffer InOut(const Shape& shape, DType dtype = DType::i64, Init init = Counting) {
  return {Direction::inout, shape, dtype, std::move(init)};
}
inline Buffer OnDevice(Buffer buffer) {
  buffer.device = true;
  return buffer;
}

/// The bytes of all buffers of a scene: before a run, or after it.
class Memory {
 public:
  explicit Memory(const std::vector<Buffer>& buffers);

  size_t size() const { return buffers_.size(); }
  std::vector<std::byte>& bytes(size_t i) { return buffers_[i]; }
  template <Element T>
  std::span<T> as(size_t i) {
    return {reinterpret_cast<T*>(buffers_[i].data()), buffers_[i].size() / sizeof(T)};
  }
  std::span<int64_t> operator[](size_t i) { return as<int64_t>(i); }
  bool operator==(const Memory&) const = default;

 private:
  std::vector<std::vector<std::byte>> buffers_;
};

struct Scene {
  std::string name;
  std::vector<Buffer> buffers;
  Orchestration build;
  /// Turns the bytes before the run into those after it. Empty: the oracle alone decides.
  std::function<void(Memory&)> expect = {};
  /// Arguments of the run, from the buffers as tensors. Empty: every buffer with its direction.
  std::function<std::vector<Arg>(const std::vector<Tensor>&)> args = {};
  RunOptions options = {};
  std::optional<uint64_t> tasks = {};  ///< that the run must have
  std::optional<uint64_t> edges = {};
};

/// The result of one run of a scene.
struct SceneResult {
  Memory memory;
  RunReport report;
  bool guards_intact = true;  ///< no byte beside a host buffer changed
};

/// Runs a scene once, with fresh buffers. `options` says how; a heap that the scene asks for stays.
SceneResult RunScene(Worker& worker, const Scene& scene, RunOptions options = {});

/// Stores `value` as an element of `dtype`.
void StoreElement(DType dtype, double value, void* target);

/// Calls visit.operator()<T>() for every element type.
template <typename Visit>
void ForEachElementType(Visit&& visit) {
  visit.template operator()<bool>();
  visit.template operator()<int8_t>();
  visit.template operator()<uint8_t>();
  visit.template operator()<int16_t>();
  visit.template operator()<uint16_t>();
  visit.template operator()<int32_t>();
  visit.template operator()<uint32_t>();
  visit.template operator()<int64_t>();
  visit.template operator()<uint64_t>();
  visit.template operator()<f16>();
  visit.template operator()<bf16>();
  visit.template operator()<float>();
  visit.template operator()<double>();
}

}  // namespace precast::scenes
