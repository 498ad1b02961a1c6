#include "cli/subprocess.h"

#include <precast/error.h>

#include <poll.h>
#include <spawn.h>

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <string_view>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>
#include <utility>

extern char** environ;

namespace precast::cli {
namespace {

[[noreturn]] void FailCall(std::string_view call, int reason) {
  Fail(ErrorCode::io, "{}: {}", call, std::generic_category().message(reason));
}

/// Closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { Close(); }
  int get() const { return fd_; }
  void Close() {
    if (int fd = std::exchange(fd_, -1); fd >= 0) close(fd);
  }

 private:
  int fd_;
};

struct Pipe {
  Pipe() : Pipe(Open()) {}
  Descriptor ours, theirs;

 private:
  explicit Pipe(std::pair<int, int> ends) : ours(ends.first), theirs(ends.second) {}
  static std::pair<int, int> Open() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) FailCall("pipe", errno);
    return {ends[0], ends[1]};
  }
};

void Drain(const Pipe& out, const Pipe& err, SubprocessResult* result) {
  pollfd polled[2] = {{out.ours.get(), POLLIN, 0}, {err.ours.get(), POLLIN, 0}};
  std::string* texts[2] = {&result->out, &result->err};
  while (polled[0].fd >= 0 || polled[1].fd >= 0) {
    if (poll(polled, 2, -1) < 0) {
      if (errno == EINTR) continue;
      FailCall("poll", errno);
    }
    for (int i = 0; i < 2; ++i) {
      if (polled[i].fd < 0 || polled[i].revents == 0) continue;
      char buffer[16384];
      ssize_t count = read(polled[i].fd, buffer, sizeof(buffer));
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) {
        polled[i].fd = -1;
      } else {
        texts[i]->append(buffer, static_cast<size_t>(count));
      }
    }
  }
}

}  // namespace

SubprocessResult RunSubprocess(std::vector<std::string> words) {
  Pipe out, err;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out.theirs.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err.theirs.get(), STDERR_FILENO);
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  pid_t child = 0;
  int reason = posix_spawn(&child, words[0].c_str(), &actions, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (reason == ENOENT) Fail(ErrorCode::not_found, "there is no executable {}", words[0]);
  if (reason != 0) FailCall("cannot execute " + words[0], reason);
  out.theirs.Close();
  err.theirs.Close();

  SubprocessResult result;
  Drain(out, err, &result);
  int status = 0;
  while (waitpid(child, &status, 0) != child) {
    if (errno != EINTR) FailCall("waitpid", errno);
  }
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

std::string OwnPath() {
  std::error_code error;
  std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) Fail(ErrorCode::io, "cannot read /proc/self/exe: {}", error.message());
  return path.string();
}

}  // namespace precast::cli
