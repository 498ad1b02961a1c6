#include <precast/error.h>
#include <precast/program.h>

#include <charconv>
#include <system_error>
#include <utility>

namespace precast {
namespace {

template <typename Values>
[[noreturn]] void FailName(const Values& values, std::string_view name) {
  if (values.empty()) {
    Fail(ErrorCode::not_found, "there is no parameter '{}': this program has none", name);
  }
  std::string names;
  for (const auto& value : values) names += (names.empty() ? "" : ", ") + value.name;
  Fail(ErrorCode::not_found, "there is no parameter '{}'; there are {}", name, names);
}

template <typename Values>
auto& Find(Values& values, std::string_view name) {
  for (auto& value : values) {
    if (value.name == name) return value;
  }
  FailName(values, name);
}

// The whole text as a number. A number too large for T counts as one outside every range.
template <typename T>
bool Parse(const std::string& text, T& value) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

Params::Params(const std::vector<ParamSpec>& specs) {
  values_.reserve(specs.size());
  for (const ParamSpec& spec : specs) values_.push_back({spec.name, spec.default_value});
}

void Params::Set(std::string_view name, std::string value) {
  Find(values_, name).text = std::move(value);
}

const std::string& Params::Text(std::string_view name) const { return Find(values_, name).text; }

int64_t Params::Integer(std::string_view name, int64_t low, int64_t high) const {
  const std::string& text = Text(name);
  int64_t value = 0;
  if (!Parse(text, value) || value < low || value > high) {
    Fail(ErrorCode::usage, "parameter {} is '{}'; allowed: a whole number from {} to {}", name,
         text, low, high);
  }
  return value;
}

double Params::Number(std::string_view name, double low, double high) const {
  const std::string& text = Text(name);
  double value = 0;
  if (!Parse(text, value) || !(value >= low && value <= high)) {  // also refuses NaN
    Fail(ErrorCode::usage, "parameter {} is '{}'; allowed: a number from {} to {}", name, text, low,
         high);
  }
  return value;
}

}  // namespace precast
