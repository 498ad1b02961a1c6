// Writing GGUF files, for tests and for models with random weights. No part of the program.
//
// `ByteSink` writes single fields and so also files that break the rules. `GgufWriter` writes whole
// files to a stream, tensor data piece by piece, so that a file may be larger than memory.
#pragma once

#include "qwen3/gguf.h"

#include <precast/dtype.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <ostream>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace precast::qwen3 {

/// Appends little-endian fields to a string of bytes.
class ByteSink {
 public:
  template <typename T>
  ByteSink& Put(T value) {
    static_assert(std::is_trivially_copyable_v<T>);
    char bytes[sizeof(T)];
    std::memcpy(bytes, &value, sizeof(T));
    bytes_.append(bytes, sizeof(T));
    return *this;
  }
  ByteSink& U32(uint32_t value) { return Put(value); }
  ByteSink& U64(uint64_t value) { return Put(value); }
  ByteSink& Raw(std::string_view bytes) {
    bytes_ += bytes;
    return *this;
  }
  ByteSink& String(std::string_view text) { return U64(text.size()).Raw(text); }
  ByteSink& Header(uint64_t tensors, uint64_t pairs) {
    return Raw("GGUF").U32(3).U64(tensors).U64(pairs);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

/// `values` in a tensor's encoding. Requires: whole blocks.
inline std::string EncodeElements(GgufType type, std::span<const float> values) {
  ByteSink sink;
  switch (type) {
    case GgufType::f32:
      for (const float v : values) sink.Put(v);
      break;
    case GgufType::f16:
      for (const float v : values) sink.Put(f16(v).bits());
      break;
    case GgufType::bf16:
      for (const float v : values) sink.Put(bf16(v).bits());
      break;
    case GgufType::q8_0:
      if (values.size() % 32 != 0) throw std::logic_error("Q8_0 needs whole blocks");
      for (; !values.empty(); values = values.subspan(32)) {
        float max = 0;
        for (const float v : values.first(32)) max = std::max(max, std::fabs(v));
        const f16 scale(max / 127);
        const auto s = static_cast<float>(scale);
        sink.Put(scale.bits());
        for (const float v : values.first(32)) {
          const long q = s > 0 ? std::lround(v / s) : 0;
          sink.Put(static_cast<int8_t>(std::clamp(q, -127L, 127L)));
        }
      }
      break;
  }
  return sink.bytes();
}

/// A whole file, front to back:
///   GgufWriter writer(stream);
///   writer.Key("general.architecture", "qwen3");
///   writer.Tensor("a", GgufType::f16, {2, 4});
///   writer.Append(eight_floats);          // in the order of declaration, in pieces of any size
///   writer.Finish();
class GgufWriter {
 public:
  explicit GgufWriter(std::ostream& out, uint32_t alignment = 32)
      : out_(out), alignment_(alignment) {
    if (alignment != 32) Key("general.alignment", alignment);
  }

  /// T: bool, an integer, float, double, a string, or a vector of numbers or strings.
  template <typename T>
  void Key(std::string_view key, const T& value) {
    pairs_.String(key);
    ++pair_count_;
    if constexpr (std::is_convertible_v<T, std::string_view>) {
      pairs_.U32(TypeNumber<std::string>()).String(value);
    } else if constexpr (std::is_arithmetic_v<T>) {
      pairs_.U32(TypeNumber<T>()).Put(value);
    } else {
      using Element = typename T::value_type;
      pairs_.U32(static_cast<uint32_t>(GgufValueType::array)).U32(TypeNumber<Element>());
      pairs_.U64(value.size());
      for (const Element& element : value) {
        if constexpr (std::is_arithmetic_v<Element>) {
          pairs_.Put(element);
        } else {
          pairs_.String(element);
        }
      }
    }
  }

  /// Declares a tensor; `shape` has the outermost dimension first. All are declared before the
  /// first `Append`.
  void Tensor(std::string_view name, GgufType type, const std::vector<uint64_t>& shape) {
    uint64_t elements = 1;
    for (const uint64_t size : shape) elements *= size;
    infos_.String(name).U32(static_cast<uint32_t>(shape.size()));
    for (size_t i = shape.size(); i > 0; --i) infos_.U64(shape[i - 1]);
    infos_.U32(static_cast<uint32_t>(type)).U64(next_offset_);
    next_offset_ = Align(next_offset_ + elements / BlockElements(type) * BlockBytes(type));
    tensors_.push_back({type, elements});
  }

  /// Writes the next elements of the current tensor. Requires: whole blocks, within the tensor.
  void Append(std::span<const float> values) {
    WriteHeader();
    while (current_ < tensors_.size() && tensors_[current_].elements_left == 0) ++current_;
    if (current_ == tensors_.size() || values.size() > tensors_[current_].elements_left) {
      throw std::logic_error("more elements than declared");
    }
    Write(EncodeElements(tensors_[current_].type, values));
    tensors_[current_].elements_left -= values.size();
    if (tensors_[current_].elements_left == 0) Pad();
  }

  void Finish() {
    WriteHeader();
    for (const Declared& tensor : tensors_) {
      if (tensor.elements_left != 0) throw std::logic_error("fewer elements than declared");
    }
    if (!out_.flush()) throw std::runtime_error("cannot write the file");
  }

 private:
  struct Declared {
    GgufType type;
    uint64_t elements_left;
  };

  template <typename T>
  static constexpr uint32_t TypeNumber() {
    using enum GgufValueType;
    constexpr GgufValueType kIntegers[][2] = {{u8, i8}, {u16, i16}, {u32, i32}, {u64, i64}};
    GgufValueType type = string;
    if constexpr (std::is_same_v<T, bool>) {
      type = boolean;
    } else if constexpr (std::is_floating_point_v<T>) {
      type = sizeof(T) == 4 ? f32 : f64;
    } else if constexpr (std::is_integral_v<T>) {
      constexpr int kSize = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
      type = kIntegers[kSize][std::is_signed_v<T>];
    }
    return static_cast<uint32_t>(type);
  }

  uint64_t Align(uint64_t offset) const {
    return (offset + alignment_ - 1) / alignment_ * alignment_;
  }

  void WriteHeader() {
    if (written_ != 0) return;
    ByteSink header;
    header.Header(tensors_.size(), pair_count_).Raw(pairs_.bytes()).Raw(infos_.bytes());
    Write(header.bytes());
    Pad();
  }

  void Write(std::string_view bytes) {
    out_.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    written_ += bytes.size();
  }

  // The header's end is aligned, so offsets in the file and in the data section agree on it.
  void Pad() { Write(std::string(Align(written_) - written_, '\0')); }

  std::ostream& out_;
  uint64_t alignment_;
  ByteSink pairs_;
  ByteSink infos_;
  uint64_t pair_count_ = 0;
  std::vector<Declared> tensors_;
  size_t current_ = 0;
  uint64_t next_offset_ = 0;
  uint64_t written_ = 0;
};

/// The bytes of a file in memory, for `GgufFile::Parse`.
inline std::span<const std::byte> AsBytes(std::string_view bytes) {
  return std::as_bytes(std::span(bytes.data(), bytes.size()));
}

}  // namespace precast::qwen3
