#include "qwen3/dequantize.h"

#include "qwen3/utf8.h"

#include <precast/dtype.h>
#include <precast/error.h>

#include <cstring>

namespace precast::qwen3 {

namespace {

template <typename T>
T Load(const std::byte* at) {
  T result;
  std::memcpy(&result, at, sizeof(T));
  return result;
}

}  // namespace

void DequantizeRows(const GgufTensor& tensor, uint64_t first, uint64_t count,
                    std::span<float> out) {
  const uint64_t rows = tensor.rows();
  if (first > rows || count > rows - first) {
    Fail(ErrorCode::out_of_range, "tensor '{}' has {} rows; asked for: {} from row {} on",
         Printable(tensor.name), rows, count, first);
  }
  if (out.size() != count * tensor.cols()) {
    Fail(ErrorCode::out_of_range, "{} rows of tensor '{}' are {} elements; the buffer has {}",
         count, Printable(tensor.name), count * tensor.cols(), out.size());
  }
  const std::byte* at = tensor.data.data() + first * tensor.row_bytes();
  switch (tensor.type) {
    case GgufType::f32:
      if (!out.empty()) std::memcpy(out.data(), at, out.size_bytes());
      break;
    case GgufType::f16:
      for (float& x : out) {
        x = static_cast<float>(f16::FromBits(Load<uint16_t>(at)));
        at += 2;
      }
      break;
    case GgufType::bf16:
      for (float& x : out) {
        x = static_cast<float>(bf16::FromBits(Load<uint16_t>(at)));
        at += 2;
      }
      break;
    case GgufType::q8_0:
      for (size_t i = 0; i < out.size(); i += 32, at += 34) {
        const auto scale = static_cast<float>(f16::FromBits(Load<uint16_t>(at)));
        for (size_t j = 0; j < 32; ++j) out[i + j] = scale * Load<int8_t>(at + 2 + j);
      }
      break;
  }
}

std::vector<float> Dequantize(const GgufTensor& tensor) {
  std::vector<float> result(tensor.rows() * tensor.cols());
  DequantizeRows(tensor, 0, tensor.rows(), result);
  return result;
}

}  // namespace precast::qwen3
