// What the tests of this folder share.
#pragma once

#include "qwen3/gguf.h"
#include "qwen3/gguf_test_writer.h"

#include <precast/error.h>

#include <gtest/gtest.h>

#include <cstdlib>
#include <exception>
#include <functional>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

namespace precast::qwen3::testing {

/// Expects that `call` throws a `precast::Error` of this code whose message has all the parts.
inline void ExpectError(ErrorCode code, const std::vector<std::string>& parts,
                        const std::function<void()>& call) {
  try {
    call();
    ADD_FAILURE() << "no error; expected one with code " << static_cast<int>(code)
                  << (parts.empty() ? "" : " and '" + parts[0] + "'");
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code)) << error.what();
    for (const std::string& part : parts) {
      EXPECT_NE(error.message().find(part), std::string::npos)
          << "'" << part << "' is not in: " << error.what();
    }
  }
}

/// Parses bytes that may be damaged: a file or a `precast::Error` is fine, all else is a failure.
inline void ParseOrError(std::string_view bytes) {
  try {
    GgufFile::Parse("damaged", AsBytes(bytes));
  } catch (const Error&) {
  }
}

/// A file that is removed at the end of the test.
class TempFile {
 public:
  explicit TempFile(std::string_view bytes) : path_(::testing::TempDir() + "precast-XXXXXX") {
    const int fd = ::mkstemp(path_.data());
    const bool written =
        fd >= 0 && ::write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
    if (fd >= 0) ::close(fd);
    if (!written) throw std::runtime_error("cannot write " + path_);
  }
  ~TempFile() { ::unlink(path_.c_str()); }
  TempFile(const TempFile&) = delete;
  TempFile& operator=(const TempFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace precast::qwen3::testing
