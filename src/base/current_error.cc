#include "base/current_error.h"

#include <fmt/format.h>

namespace precast {

Error CurrentError(ErrorCode others, std::string_view where) {
  try {
    throw;
  } catch (const Error& error) {
    return Error(error.code() == ErrorCode::usage ? others : error.code(),
                 fmt::format("{}{}", where, error.message()), error.location());
  } catch (const std::exception& error) {
    const char* what = error.what();
    return Error(others, fmt::format("{}{}", where, what != nullptr ? what : "(no message)"));
  } catch (...) {
    return Error(others, fmt::format("{}an object that is not a std::exception", where));
  }
}

}  // namespace precast
