#include "cli/process.h"

#include <poll.h>

#include <cerrno>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>

extern char** environ;

namespace precast::testing {
namespace {

[[noreturn]] void FailCall(const char* call) {
  throw std::system_error(errno, std::generic_category(), call);
}

// Our end and the command's end of one of its streams; -1 for none.
struct Ends {
  int ours = -1, theirs = -1;
};

Ends Open(Stream stream) {
  Ends ends;
  if (stream == Stream::pipe) {
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0) FailCall("pipe2");
    ends = {fds[0], fds[1]};
  } else if (stream == Stream::full_disk) {
    ends.theirs = open("/dev/full", O_WRONLY | O_CLOEXEC);
    if (ends.theirs < 0) FailCall("open /dev/full");
  } else if (stream == Stream::terminal) {
    ends.ours = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (ends.ours < 0 || grantpt(ends.ours) != 0 || unlockpt(ends.ours) != 0) FailCall("openpt");
    ends.theirs = open(ptsname(ends.ours), O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (ends.theirs < 0) FailCall("open terminal");
  }
  return ends;
}

void Attach(int theirs, int descriptor) {
  if (theirs >= 0) {
    dup2(theirs, descriptor);
  } else {
    close(descriptor);
  }
}

// Reads what both streams bring until the command has closed them.
void Drain(Ends out, Ends err, long stop_after, Outcome* outcome) {
  pollfd polled[2] = {{out.ours, POLLIN, 0}, {err.ours, POLLIN, 0}};
  std::string* texts[2] = {&outcome->out, &outcome->err};
  while (polled[0].fd >= 0 || polled[1].fd >= 0) {
    if (poll(polled, 2, -1) < 0) FailCall("poll");
    for (int i = 0; i < 2; ++i) {
      if (polled[i].fd < 0 || polled[i].revents == 0) continue;
      char buffer[65536];
      ssize_t count = read(polled[i].fd, buffer, sizeof buffer);
      bool end = count <= 0;  // a terminal that its last user closed gives EIO
      if (!end) texts[i]->append(buffer, static_cast<size_t>(count));
      if (i == 0 && stop_after >= 0 && static_cast<long>(texts[0]->size()) >= stop_after)
        end = true;
      if (end) {
        close(polled[i].fd);
        polled[i].fd = -1;
      }
    }
  }
}

}  // namespace

std::string PrecastPath() { return PRECAST_BINARY; }

Outcome Precast(const std::vector<std::string>& args, const ProcessOptions& options) {
  Ends out = Open(options.out);
  bool shared = options.out == Stream::terminal && options.err == Stream::terminal;
  Ends err = shared ? Ends{-1, out.theirs} : Open(options.err);

  std::vector<std::string> words = {options.executable.empty() ? PrecastPath()
                                                               : options.executable};
  words.insert(words.end(), args.begin(), args.end());
  std::vector<std::string> settings;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    std::string text = *entry;
    if (!options.environment.contains(text.substr(0, text.find('=')))) settings.push_back(text);
  }
  for (const auto& [name, value] : options.environment) settings.push_back(name + "=" + value);
  auto pointers = [](std::vector<std::string>& texts) {
    std::vector<char*> result;
    for (std::string& text : texts) result.push_back(text.data());
    result.push_back(nullptr);
    return result;
  };
  std::vector<char*> argv = pointers(words), envp = pointers(settings);
  int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  pid_t child = fork();
  if (child < 0) FailCall("fork");
  if (child == 0) {
    dup2(nothing, STDIN_FILENO);
    Attach(out.theirs, STDOUT_FILENO);
    Attach(err.theirs, STDERR_FILENO);
    if (options.before) options.before();
    execve(argv[0], argv.data(), envp.data());
    _exit(127);
  }
  close(nothing);
  if (out.theirs >= 0) close(out.theirs);
  if (err.theirs >= 0 && !shared) close(err.theirs);

  if (options.meanwhile) options.meanwhile(child);
  Outcome outcome;
  Drain(out, err, options.stop_reading_after, &outcome);
  int status = 0;
  if (waitpid(child, &status, 0) != child) FailCall("waitpid");
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

}  // namespace precast::testing
