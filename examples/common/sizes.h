// Sizes that a case sets and a user may change.
#pragma once

#include <precast/program.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace precast::examples {

/// A size parameter whose default is what the case says.
inline ParamSpec SizeParam(std::string name, std::string_view what) {
  return {std::move(name), "0", std::string(what) + "; 0: as the case says"};
}

/// The value of such a parameter.
inline int64_t SizeOr(const Params& params, std::string_view name, int64_t standard,
                      int64_t limit) {
  int64_t value = params.Integer(name, 0, limit);
  return value == 0 ? standard : value;
}

}  // namespace precast::examples
