#include "qwen3/gguf.h"

#include "qwen3/utf8.h"

#include <precast/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace precast::qwen3 {

static_assert(std::endian::native == std::endian::little, "values are read as they stand");

namespace {

constexpr uint32_t kVersion = 3;
constexpr uint32_t kDefaultAlignment = 32;
constexpr uint64_t kMaxKeyBytes = 65535;
constexpr uint64_t kMaxTensorNameBytes = 64;
constexpr uint32_t kMaxDimensions = 4;
// The least bytes that a key/value pair and a tensor's entry take: what bounds their counts.
constexpr uint64_t kMinPairBytes = 8 + 4 + 1;
constexpr uint64_t kMinTensorBytes = 8 + 4 + 8 + 4 + 8;

/// The name of a tensor type of the format, or "unknown" with its number.
std::string AnyTypeName(uint32_t type) {
  static constexpr std::string_view kNames[] = {
      "F32",     "F16",    "Q4_0",    "Q4_1",  "",       "",      "Q5_0",  "Q5_1",
      "Q8_0",    "Q8_1",   "Q2_K",    "Q3_K",  "Q4_K",   "Q5_K",  "Q6_K",  "Q8_K",
      "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S", "IQ2_S", "IQ4_XS",
      "I8",      "I16",    "I32",     "I64",   "F64",    "IQ1_M", "BF16",
  };
  if (type < std::size(kNames) && !kNames[type].empty()) return std::string(kNames[type]);
  return fmt::format("unknown ({})", type);
}

}  // namespace

std::string_view Name(GgufType type) {
  switch (type) {
    case GgufType::f32:
      return "F32";
    case GgufType::f16:
      return "F16";
    case GgufType::q8_0:
      return "Q8_0";
    case GgufType::bf16:
      return "BF16";
  }
  return "unknown";
}

GgufFile::Mapping::Mapping(const std::string& path) {
  auto fail = [&path](ErrorCode code, const char* what) {
    const std::string reason = std::generic_category().message(errno);
    Fail(code, "{}: cannot {}: {}", path, what, reason);
  };
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) fail(errno == ENOENT ? ErrorCode::not_found : ErrorCode::io, "open the file");
  struct Closer {
    int fd;
    ~Closer() { ::close(fd); }
  } closer{fd};

  struct stat status {};
  if (::fstat(fd, &status) != 0) fail(ErrorCode::io, "ask for the file's size");
  if (!S_ISREG(status.st_mode)) {
    Fail(ErrorCode::bad_file, "{}: not a regular file; a GGUF file is needed", path);
  }
  const auto size = static_cast<size_t>(status.st_size);
  if (size == 0) return;  // cannot be mapped; the parser reports it as truncated
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (address == MAP_FAILED) fail(ErrorCode::io, "map the file");
  bytes_ = {static_cast<const std::byte*>(address), size};
}

GgufFile::Mapping::Mapping(Mapping&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

GgufFile::Mapping& GgufFile::Mapping::operator=(Mapping&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

GgufFile::Mapping::~Mapping() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

/// Fills a `GgufFile` from bytes, front to back. `position_` never exceeds the size.
class GgufParser {
 public:
  GgufParser(GgufFile& file, std::span<const std::byte> bytes) : file_(file), bytes_(bytes) {}

  void Parse() {
    ReadPreamble();
    const uint64_t tensor_count = ReadCount("tensors", kMinTensorBytes);
    const uint64_t pair_count = ReadCount("key/value pairs", kMinPairBytes);
    for (uint64_t i = 0; i < pair_count; ++i) ReadPair();
    const uint64_t alignment = ReadAlignment();
    for (uint64_t i = 0; i < tensor_count; ++i) ReadTensorInfo(alignment);
    PlaceTensors(alignment);
  }

 private:
  /// Where the file says a tensor is, until `PlaceTensors` has checked it.
  struct Extent {
    uint64_t offset;  // from the start of the data section
    uint64_t bytes;
    uint64_t offset_position;  // of the offset field in the file
  };

  template <typename... Args>
  [[noreturn]] void Bad(uint64_t position, fmt::format_string<Args...> text, Args&&... args) const {
    Fail(ErrorCode::bad_file, "{}: {} (at byte {})", file_.name_,
         fmt::format(text, std::forward<Args>(args)...), position);
  }

  uint64_t Left() const { return bytes_.size() - position_; }

  const std::byte* Take(uint64_t count, const char* what) {
    if (count > Left()) {
      Bad(position_, "truncated: {} takes {} bytes, the file of {} bytes has {} left", what, count,
          bytes_.size(), Left());
    }
    const std::byte* result = bytes_.data() + position_;
    position_ += count;
    return result;
  }

  template <typename T>
  T Read(const char* what) {
    T result;
    std::memcpy(&result, Take(sizeof(T), what), sizeof(T));
    return result;
  }

  std::string_view ReadString(const char* what, uint64_t max_bytes) {
    const uint64_t start = position_;
    const auto length = Read<uint64_t>(what);
    if (length > max_bytes) {
      Bad(start, "the length of {} is {}; allowed: 0 to {}", what, length, max_bytes);
    }
    return {reinterpret_cast<const char*>(Take(length, what)), length};
  }

  uint64_t ReadCount(const char* what, uint64_t min_bytes) {
    const uint64_t start = position_;
    const auto count = Read<uint64_t>("the header");
    if (count > Left() / min_bytes) {
      Bad(start, "the number of {} is {}; the file of {} bytes has room for {} at most", what,
          count, bytes_.size(), Left() / min_bytes);
    }
    return count;
  }

  void ReadPreamble() {
    const std::string_view magic(reinterpret_cast<const char*>(Take(4, "the header")), 4);
    if (magic != "GGUF") {
      Bad(0, "not a GGUF file: it begins with '{}', not with 'GGUF'", Printable(magic));
    }
    const auto version = Read<uint32_t>("the header");
    if (version == kVersion) return;
    if (const uint32_t swapped = __builtin_bswap32(version); swapped >= 1 && swapped <= kVersion) {
      Bad(4, "a big-endian GGUF file of version {}; allowed: version {}, little-endian", swapped,
          kVersion);
    }
    Bad(4, "GGUF version {}; allowed: version {}", version, kVersion);
  }

  void ReadPair() {
    const uint64_t start = position_;
    const std::string_view key = ReadString("a key", kMaxKeyBytes);
    GgufFile::Value value{.type = ReadValueType(false), .is_array = false, .count = 1};
    if (value.type == GgufValueType::array) {
      value.is_array = true;
      value.type = ReadValueType(true);
      const uint64_t count_position = position_;
      value.count = Read<uint64_t>("the length of an array");
      const uint64_t min_bytes =
          value.type == GgufValueType::string ? sizeof(uint64_t) : ValueBytes(value.type);
      if (value.count > Left() / min_bytes) {
        Bad(count_position,
            "the array '{}' has {} elements; the file of {} bytes has room for {} at most",
            Printable(key), value.count, bytes_.size(), Left() / min_bytes);
      }
    }
    value.position = position_;
    value.data = bytes_.data() + position_;
    SkipElements(key, value);
    if (!file_.values_.emplace(key, value).second) {
      Bad(start, "the key '{}' occurs twice; allowed: once", Printable(key));
    }
  }

  GgufValueType ReadValueType(bool in_array) {
    const uint64_t start = position_;
    const auto type = Read<uint32_t>("the type of a value");
    constexpr auto kLast = static_cast<uint32_t>(GgufValueType::f64);
    if (type > kLast) Bad(start, "a value of type {}; allowed: 0 to {}", type, kLast);
    if (in_array && type == static_cast<uint32_t>(GgufValueType::array)) {
      Bad(start, "an array of arrays; allowed: arrays of numbers, booleans or strings");
    }
    return static_cast<GgufValueType>(type);
  }

  /// Requires: the count fits into the file at the least size of an element.
  void SkipElements(std::string_view key, const GgufFile::Value& value) {
    if (value.type == GgufValueType::string) {
      for (uint64_t i = 0; i < value.count; ++i) ReadString("a string", bytes_.size());
      return;
    }
    const std::byte* data = Take(value.count * ValueBytes(value.type), "a value");
    if (value.type != GgufValueType::boolean) return;
    for (uint64_t i = 0; i < value.count; ++i) {
      if (const auto byte = static_cast<uint8_t>(data[i]); byte > 1) {
        Bad(value.position + i, "a boolean of '{}' is {}; allowed: 0 and 1", Printable(key), byte);
      }
    }
  }

  uint64_t ReadAlignment() {
    constexpr std::string_view kKey = "general.alignment";
    const auto alignment = file_.Find<uint32_t>(kKey).value_or(kDefaultAlignment);
    if (!std::has_single_bit(alignment) || alignment < 8) {
      Bad(file_.FindValue(kKey)->position, "{} is {}; allowed: a power of two of at least 8", kKey,
          alignment);
    }
    return alignment;
  }

  void ReadTensorInfo(uint64_t alignment) {
    const uint64_t start = position_;
    GgufTensor tensor{.name = ReadString("a tensor's name", kMaxTensorNameBytes)};
    const std::string name = Printable(tensor.name);

    const uint64_t rank_position = position_;
    const auto rank = Read<uint32_t>("a tensor's rank");
    if (rank < 1 || rank > kMaxDimensions) {
      Bad(rank_position, "tensor '{}' has {} dimensions; allowed: 1 to {}", name, rank,
          kMaxDimensions);
    }
    const uint64_t shape_position = position_;
    uint64_t elements = 1;
    for (uint32_t i = 0; i < rank; ++i) {
      const uint64_t position = position_;
      const auto size = Read<uint64_t>("a tensor's shape");
      if (size == 0) Bad(position, "dimension {} of tensor '{}' is 0; allowed: 1 or more", i, name);
      // No element takes less than a byte, so no valid product exceeds the file's size.
      if (size > bytes_.size() / elements) {
        Bad(position, "tensor '{}' has more elements than the file's {} bytes can hold", name,
            bytes_.size());
      }
      elements *= size;
      tensor.shape.insert(tensor.shape.begin(), size);
    }

    const auto type = Read<uint32_t>("a tensor's type");
    tensor.type = static_cast<GgufType>(type);
    if (Name(tensor.type) == "unknown") {
      Fail(ErrorCode::unsupported,
           "{}: tensor '{}' has type {}; supported: F32, F16, BF16, Q8_0 (at byte {})", file_.name_,
           name, AnyTypeName(type), position_ - sizeof(type));
    }
    const uint64_t block = BlockElements(tensor.type);
    if (tensor.cols() % block != 0) {
      Bad(shape_position,
          "tensor '{}' of type {} has rows of {} elements; allowed: multiples of {}", name,
          Name(tensor.type), tensor.cols(), block);
    }

    Extent extent{.bytes = elements / block * BlockBytes(tensor.type),
                  .offset_position = position_};
    extent.offset = Read<uint64_t>("a tensor's offset");
    if (extent.offset % alignment != 0) {
      Bad(extent.offset_position, "tensor '{}' has offset {}; allowed: multiples of {}", name,
          extent.offset, alignment);
    }
    if (!file_.tensor_index_.emplace(tensor.name, file_.tensors_.size()).second) {
      Bad(start, "the tensor '{}' occurs twice; allowed: once", name);
    }
    file_.tensors_.push_back(std::move(tensor));
    extents_.push_back(extent);
  }

  /// Finds each tensor's bytes; they must be within the file and must not overlap.
  void PlaceTensors(uint64_t alignment) {
    if (extents_.empty()) return;
    const uint64_t base = (position_ + alignment - 1) / alignment * alignment;
    const uint64_t room = base < bytes_.size() ? bytes_.size() - base : 0;
    std::vector<size_t> order(extents_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return extents_[a].offset < extents_[b].offset; });

    for (size_t i = 0; i < order.size(); ++i) {
      const Extent& extent = extents_[order[i]];
      GgufTensor& tensor = file_.tensors_[order[i]];
      if (extent.offset > room || extent.bytes > room - extent.offset) {
        Bad(extent.offset_position,
            "truncated: tensor '{}' takes {} bytes from offset {}, the file's data section has {}",
            Printable(tensor.name), extent.bytes, extent.offset, room);
      }
      if (i > 0) {
        const Extent& before = extents_[order[i - 1]];
        if (before.offset + before.bytes > extent.offset) {
          Bad(extent.offset_position,
              "tensor '{}' at offset {} overlaps tensor '{}', which ends at offset {}",
              Printable(tensor.name), extent.offset, Printable(file_.tensors_[order[i - 1]].name),
              before.offset + before.bytes);
        }
      }
      tensor.data = bytes_.subspan(base + extent.offset, extent.bytes);
    }
  }

  GgufFile& file_;
  std::span<const std::byte> bytes_;
  uint64_t position_ = 0;
  std::vector<Extent> extents_;  // of file_.tensors_, in the same order
};

GgufFile GgufFile::Open(const std::string& path) {
  Mapping mapping(path);
  GgufFile file = Parse(path, mapping.bytes());
  file.mapping_ = std::move(mapping);
  return file;
}

GgufFile GgufFile::Parse(std::string name, std::span<const std::byte> bytes) {
  GgufFile file;
  file.name_ = std::move(name);
  GgufParser(file, bytes).Parse();
  return file;
}

const GgufTensor* GgufFile::FindTensor(std::string_view name) const {
  const auto found = tensor_index_.find(name);
  return found == tensor_index_.end() ? nullptr : &tensors_[found->second];
}

}  // namespace precast::qwen3
