// Recorded graphs: sub-graphs that an orchestration submits again and again.
//
//   void layer(Orchestrator& o, const Args& args, int heads);       // the body
//
//   for (Layer& l : layers) {
//     o.submit_graph("layer", layer, {in(l.weights), inout(x), uint32_t(l.position)}, heads);
//   }
//
// The body is called once for each combination of key, body, parameters and signature in the life
// of the worker (again if its recording had to make room: WorkerOptions::definition_budget); the
// graph that it submits is kept on the device. Every submission then is one task, which carries
// addresses and scalars. The result is that of calling the body each time.
//
// The signature of a submission: direction, dtype, shape and strides of each tensor, which of them
// share memory and how, the types of the scalars; and every value that the body looked at. These
// are the scalars it asked for by `scalar` or `value()` and the bytes that it read with
// `get_tensor_data`: a recording is replayed only where they are the same.
//
// Parameters are part of the key: integers, floating point numbers (by their bits), bool,
// enumerations and strings.
//
// A body may do what an orchestration may, but set_tensor_data; it uses the tensors and the
// Orchestrator that it was given. docs/graphs.md has the rules, and programs that compile.
#pragma once

#include <precast/dtype.h>

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace precast {

class Arg;
class Args;
class Orchestrator;

/// Names a recorded graph by a text or a number; all of it counts. A text is read during the call.
class GraphKey {
 public:
  GraphKey(std::string_view text) : text_(text), is_text_(true) {}         // NOLINT: implicit
  GraphKey(const char* text) : GraphKey(std::string_view(text)) {}         // NOLINT
  GraphKey(const std::string& text) : GraphKey(std::string_view(text)) {}  // NOLINT
  template <std::integral T>
  GraphKey(T number) : number_(static_cast<uint64_t>(number)) {}  // NOLINT

  bool is_text() const { return is_text_; }
  std::string_view text() const { return text_; }
  uint64_t number() const { return number_; }

 private:
  std::string_view text_;
  uint64_t number_ = 0;
  bool is_text_ = false;
};

namespace detail {

class RunBuilder;

/// Parameters, encoded one behind the other with their types.
class GraphParams {
 public:
  template <typename T>
  void Add(const T& value) {
    static_assert(
        !std::is_pointer_v<std::decay_t<T>> || std::is_convertible_v<const T&, std::string_view>,
        "a parameter of a graph must not be a pointer: what it points at may change");
    if constexpr (std::is_convertible_v<const T&, std::string_view>) {
      std::string_view text(value);
      Append('t', text.size());
      Append(text.data(), text.size());
    } else if constexpr (std::is_enum_v<T>) {
      Append('e', static_cast<uint64_t>(value));
    } else if constexpr (std::is_floating_point_v<T>) {
      static_assert(sizeof(T) <= sizeof(uint64_t), "float and double only");
      uint64_t bits = 0;
      std::memcpy(&bits, &value, sizeof(T));
      Append(sizeof(T) == sizeof(float) ? 'f' : 'd', bits);
    } else {
      static_assert(std::is_integral_v<T>,
                    "a parameter of a graph is a number, bool, enumeration or string");
      Append(std::is_signed_v<T> ? 'i' : 'u', static_cast<uint64_t>(value));
    }
  }
  std::string_view bytes() const {
    return more_.empty() ? std::string_view(few_.data(), size_) : std::string_view(more_);
  }

 private:
  void Append(char tag, uint64_t value) {
    Append(&tag, 1);
    Append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void Append(const char* data, size_t bytes) {
    if (more_.empty() && size_ + bytes <= few_.size()) {
      std::memcpy(few_.data() + size_, data, bytes);
      size_ += bytes;
      return;
    }
    if (more_.empty()) more_.assign(few_.data(), size_);
    more_.append(data, bytes);
  }

  std::array<char, 64> few_;
  size_t size_ = 0;
  std::string more_;  // all of it, once it is more
};

/// A body, and who it is.
struct GraphBody {
  const void* identity[2];
  void (*call)(const void* context, Orchestrator& o, const Args& args);
  const void* context;
};

/// One address for each type.
template <typename T>
inline constexpr char kAddressOf = 0;

}  // namespace detail

/// A scalar on the boundary of a graph under record. Passed on to a kernel or a graph, it is bound:
/// each instance passes its own value. There is no arithmetic on it: what is computed from a value
/// would be that of the first submission in all others. In the orchestration of a run it is its
/// value. Valid in the call of the body or orchestration whose `Args` it came from.
template <Element T>
class BoundScalar {
 public:
  /// The value of this submission; the recording then is for this value only.
  T value() const;
  operator Arg() const;  // NOLINT: implicit by design

 private:
  friend class Args;
  BoundScalar(const Args* args, uint32_t index, uint32_t bound, uint64_t bits, uint32_t serial)
      : args_(args), bits_(bits), index_(index), bound_(bound), serial_(serial) {}
  const Args* args_;
  uint64_t bits_;
  uint32_t index_, bound_, serial_;
};

}  // namespace precast
