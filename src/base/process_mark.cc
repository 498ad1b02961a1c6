#include "base/process_mark.h"

#include <precast/error.h>

#include <pthread.h>
#include <unistd.h>

namespace precast {
namespace {

// How many forks lie between the process that loaded the library and this one. A fact about the
// process, so there can be only one. Changes before the child has a second thread.
uint64_t forks = 0;
[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, [] { ++forks; });

}  // namespace

ProcessMark::ProcessMark() : forks_(forks), pid_(getpid()) {}

bool ProcessMark::here() const { return forks == forks_; }

void ProcessMark::Fail(std::string_view what) const {
  precast::Fail(ErrorCode::unsupported,
                "{} of process {} used in process {}, which was forked from it: threads and device "
                "stayed there; make a worker after the fork",
                what, pid_, getpid());
}

}  // namespace precast
