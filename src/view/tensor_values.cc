#include "view/tensor_values.h"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string_view>

namespace precast::view {
namespace {

template <typename T>
T Load(const char* element) {
  T value;
  std::memcpy(static_cast<void*>(&value), element, sizeof(T));
  return value;
}

/// Calls use(value) with the element as a C++ number.
template <typename Use>
auto WithValue(DType dtype, const char* element, Use&& use) {
  switch (dtype) {
    case DType::i8:
      return use(static_cast<int>(Load<int8_t>(element)));
    case DType::i16:
      return use(Load<int16_t>(element));
    case DType::u16:
      return use(Load<uint16_t>(element));
    case DType::i32:
      return use(Load<int32_t>(element));
    case DType::u32:
      return use(Load<uint32_t>(element));
    case DType::i64:
      return use(Load<int64_t>(element));
    case DType::u64:
      return use(Load<uint64_t>(element));
    case DType::f16:
      return use(static_cast<float>(Load<f16>(element)));
    case DType::bf16:
      return use(static_cast<float>(Load<bf16>(element)));
    case DType::f32:
      return use(Load<float>(element));
    case DType::f64:
      return use(Load<double>(element));
    default:
      return use(static_cast<int>(Load<uint8_t>(element)));
  }
}

double ToDouble(DType dtype, const char* element) {
  return WithValue(dtype, element, [](auto value) { return static_cast<double>(value); });
}

std::string ToText(DType dtype, const char* element) {
  return WithValue(dtype, element, [](auto value) { return fmt::format("{}", value); });
}

/// "[3, 0]"
std::string IndexText(const std::vector<uint32_t>& shape, uint64_t element) {
  std::vector<uint64_t> index(shape.size());
  for (size_t axis = shape.size(); axis-- > 0;) {
    index[axis] = element % shape[axis];
    element /= shape[axis];
  }
  return fmt::format("[{}]", fmt::join(index, ", "));
}

}  // namespace

TensorValues ReadValues(const char* data, const abi::Layout& layout, uint64_t bytes) {
  TensorValues values{.dtype = static_cast<DType>(layout.dtype),
                      .shape = {layout.shape, layout.shape + layout.rank},
                      .elements = layout.elements};
  values.min = std::numeric_limits<double>::infinity();
  values.max = -values.min;
  size_t size = layout.element_bytes;
  values.first.reserve(std::min<uint64_t>(bytes / size, layout.elements) * size);
  std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> hash(XXH3_createState(),
                                                                       XXH3_freeState);
  XXH3_64bits_reset(hash.get());
  for (uint64_t i = 0; i < layout.elements; ++i) {
    uint64_t rest = i, offset = 0;
    for (int axis = layout.rank - 1; axis >= 0; --axis) {
      offset += rest % layout.shape[axis] * layout.strides[axis];
      rest /= layout.shape[axis];
    }
    const char* element = data + offset * size;
    XXH3_64bits_update(hash.get(), element, size);
    if (values.first.size() + size <= bytes) {
      values.first.insert(values.first.end(), element, element + size);
    }
    double value = ToDouble(values.dtype, element);
    if (std::isnan(value)) {
      ++values.nans;
      continue;
    }
    values.min = std::min(values.min, value);
    values.max = std::max(values.max, value);
    values.mean += (value - values.mean) / static_cast<double>(i + 1 - values.nans);
  }
  values.hash = XXH3_64bits_digest(hash.get());
  return values;
}

std::string StatisticsText(const TensorValues& values) {
  if (values.nans == values.elements) return fmt::format("all {} elements are NaN", values.nans);
  return fmt::format("min {:.6g}, max {:.6g}, mean {:.6g}, {} NaN", values.min, values.max,
                     values.mean, values.nans == 0 ? "no" : fmt::format("{}", values.nans));
}

std::string ElementsText(const TensorValues& values, uint64_t count) {
  count = std::min(count, values.kept());
  std::string text;
  for (uint64_t i = 0; i < count; ++i) {
    text += (i == 0 ? "" : ", ") + ToText(values.dtype, &values.first[i * SizeOf(values.dtype)]);
  }
  return fmt::format("[{}{}]", text, count == values.elements ? "" : count == 0 ? "…" : ", …");
}

std::string DifferenceText(const TensorValues& found, const TensorValues& expected,
                           std::string_view expected_name) {
  if (found.dtype != expected.dtype || found.shape != expected.shape) {
    return fmt::format("{} has another tensor there: {} [{}]", expected_name, Name(expected.dtype),
                       fmt::join(expected.shape, ", "));
  }
  if (found.hash == expected.hash) {
    return fmt::format("equal to {} in all {} elements", expected_name, found.elements);
  }
  constexpr uint64_t kShown = 4;
  uint64_t size = SizeOf(found.dtype), kept = std::min(found.kept(), expected.kept());
  uint64_t differences = 0;
  std::string shown;
  for (uint64_t i = 0; i < kept; ++i) {
    const char* a = &found.first[i * size];
    const char* b = &expected.first[i * size];
    if (std::memcmp(a, b, size) == 0 || ++differences > kShown) continue;
    shown +=
        fmt::format("{} {}: {}, {} has {}", differences == 1 ? "" : ";", IndexText(found.shape, i),
                    ToText(found.dtype, a), expected_name, ToText(found.dtype, b));
  }
  std::string of =
      kept == found.elements
          ? fmt::format("all {} elements", kept)
          : fmt::format("the first {} of {} elements (--bytes keeps more)", kept, found.elements);
  if (differences == 0) return fmt::format("differs from {}, but not in {}", expected_name, of);
  return fmt::format("differs from {} in {} of {}:{}{}", expected_name, differences, of, shown,
                     differences > kShown ? "; …" : "");
}

}  // namespace precast::view
