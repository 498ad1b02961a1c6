// Checks of what users hand to a worker: programs, and arguments against a program's signature.
//
// Threads: pure functions.
#pragma once

#include <precast/argument.h>
#include <precast/program.h>

#include <chrono>

namespace precast::detail {

/// Throws `invalid_argument` when the program lacks a part that runs need, or its parts contradict
/// each other.
void CheckProgram(const Program& program);

/// The same for all that a program describes, its cases and parameters too: of one that is loaded.
void CheckDescriptor(const Program& program);

/// Throws `mismatch` that names the argument, what was found and what is allowed. Requires: the
/// program passes CheckProgram.
void CheckSignature(const Program& program, ArgList args);

/// Throws `invalid_argument` outside 1 … 256.
void CheckThreads(int threads);
void CheckTimeout(std::chrono::nanoseconds timeout);

}  // namespace precast::detail
