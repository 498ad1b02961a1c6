// Metadata values: the typed half of `GgufFile`. The bytes were checked when the file was parsed.
#include "qwen3/gguf.h"
#include "qwen3/utf8.h"

#include <precast/error.h>

#include <fmt/format.h>

#include <concepts>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

namespace precast::qwen3 {

namespace {

template <typename T>
struct IsVector : std::false_type {};
template <typename T>
struct IsVector<std::vector<T>> : std::true_type {};

template <typename T>
T Load(const std::byte*& at) {
  T result;
  std::memcpy(&result, at, sizeof(T));
  at += sizeof(T);
  return result;
}

template <std::integral From, typename To>
bool AssignInteger(From value, To* result) {
  if constexpr (std::integral<To> && !std::same_as<To, bool>) {
    if (!std::in_range<To>(value)) return false;
    *result = static_cast<To>(value);
    return true;
  } else {
    return false;
  }
}

template <std::floating_point From, typename To>
bool AssignFloat(From value, To* result) {
  if constexpr (std::floating_point<To>) {
    *result = static_cast<To>(value);
    return true;
  } else {
    return false;
  }
}

/// What a message calls the type that the caller asked for.
template <typename T>
std::string NeededName() {
  if constexpr (IsVector<T>::value) {
    return "an array, each element " + NeededName<typename T::value_type>();
  } else if constexpr (std::same_as<T, bool>) {
    return "a boolean";
  } else if constexpr (std::floating_point<T>) {
    return "a floating-point number";
  } else if constexpr (std::integral<T>) {
    return fmt::format("an integer from {} to {}", +std::numeric_limits<T>::min(),
                       +std::numeric_limits<T>::max());
  } else {
    return "a string";
  }
}

}  // namespace

/// Converts the element at `at` and moves `at` behind it; false if T cannot hold it.
template <typename T>
bool GgufFile::Assign(GgufValueType type, const std::byte*& at, T* result) {
  switch (type) {
    case GgufValueType::u8:
      return AssignInteger(Load<uint8_t>(at), result);
    case GgufValueType::i8:
      return AssignInteger(Load<int8_t>(at), result);
    case GgufValueType::u16:
      return AssignInteger(Load<uint16_t>(at), result);
    case GgufValueType::i16:
      return AssignInteger(Load<int16_t>(at), result);
    case GgufValueType::u32:
      return AssignInteger(Load<uint32_t>(at), result);
    case GgufValueType::i32:
      return AssignInteger(Load<int32_t>(at), result);
    case GgufValueType::u64:
      return AssignInteger(Load<uint64_t>(at), result);
    case GgufValueType::i64:
      return AssignInteger(Load<int64_t>(at), result);
    case GgufValueType::f32:
      return AssignFloat(Load<float>(at), result);
    case GgufValueType::f64:
      return AssignFloat(Load<double>(at), result);
    case GgufValueType::boolean:
      if constexpr (std::same_as<T, bool>) {
        *result = Load<uint8_t>(at) != 0;
        return true;
      }
      return false;
    case GgufValueType::string:
      if constexpr (std::same_as<T, std::string_view>) {
        const auto length = Load<uint64_t>(at);
        *result = {reinterpret_cast<const char*>(at), length};
        at += length;
        return true;
      }
      return false;
    case GgufValueType::array:
      break;
  }
  return false;
}

std::string_view GgufFile::TypeName(GgufValueType type) {
  static constexpr std::string_view kNames[] = {"uint8",  "int8",    "uint16",  "int16",  "uint32",
                                                "int32",  "float32", "boolean", "string", "array",
                                                "uint64", "int64",   "float64"};
  return kNames[static_cast<uint32_t>(type)];
}

std::string GgufFile::Describe(const Value& value) {
  if (value.is_array) return fmt::format("an array of {} {}", value.count, TypeName(value.type));
  const std::byte* at = value.data;
  const std::string_view type = TypeName(value.type);
  if (std::string_view s; Assign(value.type, at, &s)) return fmt::format("'{}'", Printable(s));
  if (bool b = false; Assign(value.type, at = value.data, &b)) return b ? "true" : "false";
  if (int64_t i = 0; Assign(value.type, at = value.data, &i)) return fmt::format("{} {}", type, i);
  if (uint64_t u = 0; Assign(value.type, at = value.data, &u)) return fmt::format("{} {}", type, u);
  double d = 0;
  Assign(value.type, at = value.data, &d);
  return fmt::format("{} {}", type, d);
}

const GgufFile::Value* GgufFile::FindValue(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

template <typename T>
std::optional<T> GgufFile::Find(std::string_view key) const {
  const Value* value = FindValue(key);
  if (value == nullptr) return std::nullopt;
  T result{};
  const std::byte* at = value->data;
  bool ok = value->is_array == IsVector<T>::value;
  if constexpr (IsVector<T>::value) {
    if (ok) result.resize(value->count);
    for (uint64_t i = 0; ok && i < value->count; ++i) ok = Assign(value->type, at, &result[i]);
  } else if (ok) {
    ok = Assign(value->type, at, &result);
  }
  if (!ok) {
    Fail(ErrorCode::bad_file, "{}: key '{}' is {}; needed: {} (at byte {})", name_, Printable(key),
         Describe(*value), NeededName<T>(), value->position);
  }
  return result;
}

template <typename T>
T GgufFile::Require(std::string_view key) const {
  std::optional<T> value = Find<T>(key);
  if (!value) Fail(ErrorCode::bad_file, "{}: missing key '{}'", name_, Printable(key));
  return *std::move(value);
}

std::optional<uint64_t> GgufFile::FindArraySize(std::string_view key) const {
  const Value* value = FindValue(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_array) {
    Fail(ErrorCode::bad_file, "{}: key '{}' is {}; needed: an array (at byte {})", name_,
         Printable(key), Describe(*value), value->position);
  }
  return value->count;
}

#define PRECAST_QWEN3_GGUF_SCALAR(T)                                   \
  template std::optional<T> GgufFile::Find<T>(std::string_view) const; \
  template T GgufFile::Require<T>(std::string_view) const;
#define PRECAST_QWEN3_GGUF_VALUE(T) \
  PRECAST_QWEN3_GGUF_SCALAR(T)      \
  PRECAST_QWEN3_GGUF_SCALAR(std::vector<T>)

PRECAST_QWEN3_GGUF_SCALAR(bool)
PRECAST_QWEN3_GGUF_VALUE(uint8_t)
PRECAST_QWEN3_GGUF_VALUE(int8_t)
PRECAST_QWEN3_GGUF_VALUE(uint16_t)
PRECAST_QWEN3_GGUF_VALUE(int16_t)
PRECAST_QWEN3_GGUF_VALUE(uint32_t)
PRECAST_QWEN3_GGUF_VALUE(int32_t)
PRECAST_QWEN3_GGUF_VALUE(uint64_t)
PRECAST_QWEN3_GGUF_VALUE(int64_t)
PRECAST_QWEN3_GGUF_VALUE(float)
PRECAST_QWEN3_GGUF_VALUE(double)
PRECAST_QWEN3_GGUF_VALUE(std::string_view)

#undef PRECAST_QWEN3_GGUF_VALUE
#undef PRECAST_QWEN3_GGUF_SCALAR

}  // namespace precast::qwen3
