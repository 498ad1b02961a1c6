#include "base/dynamic_library.h"

#include <precast/error.h>

#include <gtest/gtest.h>

#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <unistd.h>
#include <utility>

namespace precast {
namespace {

void ExpectError(ErrorCode code, const std::string& part, const std::function<void()>& call) {
  try {
    call();
    ADD_FAILURE() << "no error; expected one with \"" << part << "\"";
  } catch (const Error& error) {
    EXPECT_EQ(Name(error.code()), Name(code)) << error.message();
    EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
  }
}

TEST(DynamicLibrary, OpensAFileAndFindsSymbols) {
  Dl_info info{};
  auto* here = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(&getpid));
  ASSERT_NE(dladdr(here, &info), 0);
  if (std::string_view(info.dli_fname).find(".so") == std::string_view::npos) {
    // The address of the executable's own stub: ask the library itself.
    here = dlsym(RTLD_NEXT, "getpid");
    ASSERT_NE(dladdr(here, &info), 0);
  }
  DynamicLibrary library(info.dli_fname);
  EXPECT_TRUE(library.is_open());
  EXPECT_EQ(library.path(), info.dli_fname);
  EXPECT_EQ(library.Symbol<pid_t (*)()>("getpid")(), getpid());
  EXPECT_EQ(library.FindSymbol<void (*)()>("no_such_symbol"), nullptr);
  ExpectError(ErrorCode::not_found, "no symbol 'no_such_symbol'",
              [&] { library.Symbol<void (*)()>("no_such_symbol"); });

  DynamicLibrary moved = std::move(library);
  EXPECT_EQ(moved.Symbol<pid_t (*)()>("getpid")(), getpid());
  DynamicLibrary assigned;
  EXPECT_FALSE(assigned.is_open());
  assigned = std::move(moved);
  EXPECT_TRUE(assigned.is_open());
}

TEST(DynamicLibrary, SystemLibraries) {
  DynamicLibrary math = DynamicLibrary::System("libm.so.6");
  EXPECT_EQ(math.Symbol<double (*)(double)>("fabs")(-3.0), 3.0);
  ExpectError(ErrorCode::not_found, "libnone-such.so",
              [] { DynamicLibrary::System("libnone-such.so"); });
}

TEST(DynamicLibrary, SaysWhyItCannotOpen) {
  ExpectError(ErrorCode::not_found, "'missing.so': no such file",
              [] { DynamicLibrary("missing.so"); });
  ExpectError(ErrorCode::not_found, "/dev/null/x.so", [] { DynamicLibrary("/dev/null/x.so"); });
  std::string folder = std::filesystem::temp_directory_path().string();
  ExpectError(ErrorCode::bad_file, "not a regular file", [&] { DynamicLibrary{folder}; });
  std::string text = ::testing::TempDir() + fmt::format("/precast_text_{}.so", getpid());
  std::ofstream(text) << "this is text, not a library\n";
  ExpectError(ErrorCode::bad_file, text, [&] { DynamicLibrary{text}; });
  std::filesystem::remove(text);
}

}  // namespace
}  // namespace precast
