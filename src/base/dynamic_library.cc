#include "base/dynamic_library.h"

#include <precast/error.h>

#include <dlfcn.h>
#include <filesystem>
#include <system_error>
#include <utility>

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
