#include "base/dynamic_library.h"

#include <precast/error.h>

#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace precast {
namespace {

constexpr int kOpenFlags = RTLD_NOW | RTLD_LOCAL;

// dlerror's text, which often starts with the path that our message names already.
std::string LoaderMessage(const std::string& path) {
  const char* text = dlerror();  // NOLINT(concurrency-mt-unsafe): per thread in glibc
  std::string message = text != nullptr ? text : "no reason given";
  std::string prefix = path + ": ";
  if (message.starts_with(prefix)) message.erase(0, prefix.size());
  return message;
}

/// Refuses a file whose end is missing: the loader maps it without looking, and the process would
/// die of SIGBUS. What else is wrong with a file the loader says itself.
void CheckComplete(const std::string& path) {
  std::error_code error;
  uint64_t size = std::filesystem::file_size(path, error);
  std::ifstream file(path, std::ios::binary);
  Elf64_Ehdr header{};
  file.read(reinterpret_cast<char*>(&header), sizeof(header));
  if (error || !file ||
      std::string_view(reinterpret_cast<char*>(header.e_ident), SELFMAG) != ELFMAG ||
      header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_phentsize != sizeof(Elf64_Phdr)) {
    return;
  }
  uint64_t needed = header.e_phoff + uint64_t{header.e_phnum} * sizeof(Elf64_Phdr);
  std::vector<Elf64_Phdr> segments(header.e_phnum);
  file.seekg(static_cast<std::streamoff>(header.e_phoff));
  file.read(reinterpret_cast<char*>(segments.data()),
            static_cast<std::streamsize>(segments.size() * sizeof(Elf64_Phdr)));
  if (file) {
    for (const Elf64_Phdr& segment : segments) {
      uint64_t end = 0;
      if (__builtin_add_overflow(segment.p_offset, segment.p_filesz, &end)) end = UINT64_MAX;
      if (segment.p_type == PT_LOAD) needed = std::max(needed, end);
    }
  }
  if (needed > size) {
    Fail(ErrorCode::bad_file, "'{}' is truncated: it has {} bytes and says that it needs {}", path,
         size, needed);
  }
}

}  // namespace

DynamicLibrary::DynamicLibrary(const std::string& path) : path_(path) {
  std::error_code error;
  auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) {
    Fail(ErrorCode::not_found, "shared library '{}': {}", path,
         status.type() == std::filesystem::file_type::not_found ? "no such file" : error.message());
  }
  if (!std::filesystem::is_regular_file(status)) {
    Fail(ErrorCode::bad_file, "shared library '{}': not a regular file", path);
  }
  CheckComplete(path);
  // Without a slash the loader would search the system's directories instead.
  std::string name = path.find('/') == std::string::npos ? "./" + path : path;
  handle_ = dlopen(name.c_str(), kOpenFlags);
  if (handle_ == nullptr) {
    Fail(ErrorCode::bad_file, "'{}' cannot be loaded as a shared library: {}", path,
         LoaderMessage(name));
  }
}

DynamicLibrary DynamicLibrary::System(const std::string& name) {
  DynamicLibrary library;
  library.path_ = name;
  library.handle_ = dlopen(name.c_str(), kOpenFlags);
  if (library.handle_ == nullptr) {
    Fail(ErrorCode::not_found, "system library '{}': {}", name, LoaderMessage(name));
  }
  return library;
}

DynamicLibrary::DynamicLibrary(DynamicLibrary&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)), path_(std::move(other.path_)) {}

DynamicLibrary& DynamicLibrary::operator=(DynamicLibrary&& other) noexcept {
  std::swap(handle_, other.handle_);
  std::swap(path_, other.path_);
  return *this;
}

DynamicLibrary::~DynamicLibrary() {
  if (handle_ != nullptr) dlclose(handle_);
}

void* DynamicLibrary::Address(const char* name, bool required) const {
  if (handle_ == nullptr) Fail(ErrorCode::internal, "symbol '{}' of a library not open", name);
  void* address = dlsym(handle_, name);
  if (address == nullptr && required) {
    Fail(ErrorCode::not_found, "'{}' has no symbol '{}'", path_, name);
  }
  return address;
}

}  // namespace precast
