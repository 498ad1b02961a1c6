// Help with names that users mistype.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace precast::cli {

/// The one of `names` that `found` is most likely meant to be; empty when none is close.
std::string Nearest(std::string_view found, const std::vector<std::string>& names);

/// Throws `Error{usage}`: "there is no WHAT 'FOUND'; did you mean X? There are A, B, C".
[[noreturn]] void FailUnknown(std::string_view what, std::string_view found,
                              const std::vector<std::string>& names);

}  // namespace precast::cli
