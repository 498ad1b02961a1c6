#include "cli/names.h"

#include <precast/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace precast::cli {
namespace {

// How many letters have to be inserted, removed or replaced to get from one to the other.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

// An option's name without its dashes, which say nothing about what was meant.
std::string_view Bare(std::string_view name) {
  return name.substr(std::min(name.find_first_not_of('-'), name.size()));
}

}  // namespace

std::string Nearest(std::string_view found, const std::vector<std::string>& names) {
  std::string nearest;
  size_t best = Bare(found).size() / 3 + 1;
  for (const std::string& name : names) {
    size_t distance = EditDistance(Bare(found), Bare(name));
    if (distance < best) {
      best = distance;
      nearest = name;
    }
  }
  return nearest;
}

void FailUnknown(std::string_view what, std::string_view found,
                 const std::vector<std::string>& names) {
  std::string nearest = Nearest(found, names);
  std::string list = fmt::format("{}", fmt::join(names, ", "));
  if (nearest.empty()) {
    Fail(ErrorCode::usage, "there is no {} '{}'; there are {}", what, found, list);
  }
  Fail(ErrorCode::usage, "there is no {} '{}'; did you mean {}? There are {}", what, found, nearest,
       list);
}

}  // namespace precast::cli
