#include "base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <string_view>
#include <system_error>

namespace precast {
namespace {

// Three significant digits of a value in [0, 1000): 9.99, 99.9, 999.
std::string ThreeDigits(double value) {
  if (value < 9.995) return fmt::format("{:.2f}", value);
  if (value < 99.95) return fmt::format("{:.1f}", value);
  return fmt::format("{:.0f}", value);
}

}  // namespace

std::string FormatMicroseconds(double microseconds) {
  if (!std::isfinite(microseconds)) return "-";
  if (microseconds == 0) return "0 us";
  if (microseconds < 0) return "-" + FormatMicroseconds(-microseconds);
  if (microseconds < 0.9995) return fmt::format("{:.0f} ns", microseconds * 1e3);
  if (microseconds < 999.5) return ThreeDigits(microseconds) + " us";
  if (microseconds < 999.5e3) return ThreeDigits(microseconds * 1e-3) + " ms";
  if (microseconds < 999.5e6) return ThreeDigits(microseconds * 1e-6) + " s";
  return FormatCount(static_cast<uint64_t>(std::min(microseconds * 1e-6, 1e18))) + " s";
}

std::string FormatBytes(uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  constexpr std::array<std::string_view, 6> units = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (value >= 999.5 && unit + 1 < units.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{} {}", ThreeDigits(value), units[unit]);
}

std::string FormatRate(uint64_t per_second, std::string_view unit) {
  if (per_second == 0) return fmt::format("0 {}/s", unit);
  constexpr std::array<std::string_view, 7> prefixes = {"", "k", "M", "G", "T", "P", "E"};
  double value = static_cast<double>(per_second);
  size_t prefix = 0;
  for (; value >= 999.5; ++prefix) value /= 1000;
  return fmt::format("{} {}{}/s", ThreeDigits(value), prefixes[prefix], unit);
}

std::string FormatCount(uint64_t count) {
  std::string digits = fmt::format("{}", count);
  for (size_t i = digits.size(); i > 3;) digits.insert(i -= 3, ",");
  return digits;
}

std::optional<uint64_t> ParseBytes(std::string_view text) {
  uint64_t bytes = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  if (error != std::errc()) return {};
  std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  if (unit.empty()) return bytes;
  constexpr std::string_view units = "KMGT";
  size_t power = units.find(static_cast<char>(std::toupper(static_cast<unsigned char>(unit[0]))));
  if (power == std::string_view::npos || (unit.size() > 1 && unit.substr(1) != "iB")) return {};
  if (__builtin_mul_overflow(bytes, uint64_t{1} << (10 * (power + 1)), &bytes)) return {};
  return bytes;
}

}  // namespace precast
