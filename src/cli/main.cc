// The precast command: built-in examples, and everything else in command_line.h.
#include "cli/command_line.h"
#include "examples.h"

#include <fcntl.h>
#include <signal.h>
#include <string>
#include <unistd.h>
#include <vector>

namespace {

// A standard stream that the caller closed would otherwise become the next file that is opened, and
// output would land there. Opened for the wrong direction, its use fails and is reported.
void ReserveStandardStreams() {
  for (int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) != -1) continue;
    int opened = open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    if (opened != stream) _exit(1);
  }
}

}  // namespace

int main(int argc, char** argv) {
  ReserveStandardStreams();
  // A closed pipe and a limit on the size of files are write errors like any other: reported,
  // exit 1.
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  std::vector<std::string> args(argv + (argc > 0 ? 1 : 0), argv + argc);
  return precast::cli::Main(args, precast::examples::Examples());
}
