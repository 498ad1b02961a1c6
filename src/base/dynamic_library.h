// A shared library that is open as long as the object lives. For programs that users load, and for
// vendor libraries that a platform finds at run time.
//
// It is opened with its symbols private to it and all of them resolved at once, so a library that
// lacks something fails when it is opened and not in the middle of a run.
//
// Threads: calls may be made from any thread; the destructor must not run while code or data of the
// library is in use.
#pragma once

#include <string>
#include <type_traits>

namespace precast {

class DynamicLibrary {
 public:
  DynamicLibrary() = default;  ///< nothing open
  /// Opens a file; a path without a slash means the current directory. Throws `not_found` when
  /// there is no such file, `bad_file` when it cannot be loaded, with the reason.
  explicit DynamicLibrary(const std::string& path);
  /// Opens a library by the name the system's loader finds it by, e.g. "libcuda.so.1". Throws
  /// `not_found` with the reason.
  static DynamicLibrary System(const std::string& name);

  DynamicLibrary(DynamicLibrary&& other) noexcept;
  DynamicLibrary& operator=(DynamicLibrary&& other) noexcept;
  ~DynamicLibrary();

  /// The library stays open for good: for code that may run on after the object is gone.
  void KeepOpen() noexcept { handle_ = nullptr; }

  bool is_open() const { return handle_ != nullptr; }
  const std::string& path() const { return path_; }

  /// The address of an exported function or object: `T` is a pointer type. Throws `not_found` with
  /// the names of library and symbol.
  template <typename T>
  T Symbol(const char* name) const {
    static_assert(std::is_pointer_v<T>, "a symbol is an address");
    return reinterpret_cast<T>(Address(name, true));
  }
  /// The same, null when the library has no such symbol.
  template <typename T>
  T FindSymbol(const char* name) const {
    static_assert(std::is_pointer_v<T>, "a symbol is an address");
    return reinterpret_cast<T>(Address(name, false));
  }

 private:
  void* Address(const char* name, bool required) const;
  void* handle_ = nullptr;
  std::string path_;
};

}  // namespace precast
