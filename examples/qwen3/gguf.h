// Reading GGUF files: the metadata and the tensors of a trained model.
//
// A GGUF file is a header, key/value pairs, a list of tensors and, aligned, the tensors' bytes.
// This reader takes version 3, little-endian. It believes nothing in the file: every count, length,
// offset and product is checked against the file's size before it is used, and what it allocates is
// bounded by that size. A file that breaks a rule is refused with `Error{bad_file}`, which says
// what was found, what is allowed, and at which byte.
//
// Files are mapped, not read. Names, strings and tensor data point into the mapping: they live as
// long as the `GgufFile`, also when it is moved. A file that another process cuts short while it is
// mapped ends this process (SIGBUS): don't write to a model in use.
//
// Thread safety: after construction everything is const and may be used from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace precast::qwen3 {

/// The element types of tensors that this program computes with; the values are the file format's.
enum class GgufType : uint32_t { f32 = 0, f16 = 1, q8_0 = 8, bf16 = 30 };

/// "F32", "F16", "Q8_0" or "BF16".
std::string_view Name(GgufType type);

/// Elements of one block: 32 for Q8_0 (an f16 scale, then 32 signed bytes), else 1.
constexpr uint64_t BlockElements(GgufType type) { return type == GgufType::q8_0 ? 32 : 1; }

/// Bytes of one block.
constexpr uint64_t BlockBytes(GgufType type) {
  return type == GgufType::f32 ? 4 : type == GgufType::q8_0 ? 34 : 2;
}

/// The types of metadata values; the numbers are the file format's.
enum class GgufValueType : uint32_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12,
};

/// Bytes of one value; 0 for strings and arrays, whose size differs.
constexpr uint64_t ValueBytes(GgufValueType type) {
  constexpr uint8_t kBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return kBytes[static_cast<uint32_t>(type)];
}

/// One tensor of a file. A row is contiguous; rows follow each other without gaps.
struct GgufTensor {
  std::string_view name;
  GgufType type = GgufType::f32;
  /// Outermost dimension first, 1 to 4 of them, none 0. (The file stores the innermost first.)
  std::vector<uint64_t> shape;
  /// Exactly the bytes of the shape. Their address is aligned as the file says, relative to the
  /// start of the file or buffer.
  std::span<const std::byte> data;

  uint64_t cols() const { return shape.back(); }  ///< a multiple of `BlockElements(type)`
  uint64_t rows() const { return data.size() / row_bytes(); }
  uint64_t row_bytes() const { return cols() / BlockElements(type) * BlockBytes(type); }
};

/// An opened file; move-only.
///   GgufFile file = GgufFile::Open("model.gguf");
///   auto layers = file.Require<uint32_t>("qwen3.block_count");
///   const GgufTensor* norm = file.FindTensor("output_norm.weight");
class GgufFile {
 public:
  /// Maps and parses a file. Throws `not_found`, `io`, `bad_file`, or `unsupported` (a tensor of
  /// another type).
  static GgufFile Open(const std::string& path);

  /// Parses bytes that outlive the result; `name` stands for the path in messages.
  static GgufFile Parse(std::string name, std::span<const std::byte> bytes);

  /// The path, or the name given to `Parse`; error messages begin with it.
  const std::string& name() const { return name_; }

  /// The value of a metadata key, or nothing if the file lacks the key. T is bool, an integer of 8
  /// to 64 bits, float, double, std::string_view, or a std::vector of one of these (no bool).
  /// Integers convert when the value fits into T, floats always; any other difference of type is
  /// `bad_file`, naming the key, the type and value found, and the type needed.
  template <typename T>
  std::optional<T> Find(std::string_view key) const;

  /// As `Find`, but a missing key is `bad_file`.
  template <typename T>
  T Require(std::string_view key) const;

  /// The length of an array without reading it, or nothing. `bad_file` if it is not an array.
  std::optional<uint64_t> FindArraySize(std::string_view key) const;

  /// All tensors in the file's order.
  const std::vector<GgufTensor>& tensors() const { return tensors_; }

  /// The tensor of that name, or null.
  const GgufTensor* FindTensor(std::string_view name) const;

 private:
  friend class GgufParser;

  /// A read-only mapping of a whole file; empty for `Parse`.
  class Mapping {
   public:
    Mapping() = default;
    explicit Mapping(const std::string& path);
    Mapping(Mapping&& other) noexcept;
    Mapping& operator=(Mapping&& other) noexcept;
    ~Mapping();
    std::span<const std::byte> bytes() const { return bytes_; }

   private:
    std::span<const std::byte> bytes_;
  };

  /// A metadata value, still in its bytes, which the parser has checked.
  struct Value {
    GgufValueType type;  ///< of the elements, if it is an array; never `array`
    bool is_array;
    uint64_t count;         ///< 1 unless it is an array
    const std::byte* data;  ///< the first element; a string is its length (u64) and its bytes
    uint64_t position;      ///< of the value in the file
  };

  GgufFile() = default;

  template <typename T>
  static bool Assign(GgufValueType type, const std::byte*& at, T* result);
  static std::string_view TypeName(GgufValueType type);
  static std::string Describe(const Value& value);
  const Value* FindValue(std::string_view key) const;

  std::string name_;
  Mapping mapping_;
  std::map<std::string_view, Value> values_;
  std::vector<GgufTensor> tensors_;
  std::map<std::string_view, size_t> tensor_index_;
};

}  // namespace precast::qwen3
