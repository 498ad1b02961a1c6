// CurrentError: the exception being handled, as an Error. For foreign code that may throw anything.
#pragma once

#include <precast/error.h>

#include <string_view>

namespace precast {

/// What a `catch (...)` caught: an Error keeps its code and location, unless it says `usage`, which
/// only the command may; everything else gets the code `others`. The message begins with `where`.
Error CurrentError(ErrorCode others, std::string_view where);

}  // namespace precast
