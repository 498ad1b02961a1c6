// Times and sizes as people read them: three digits and the unit that fits. For tables and
// messages.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace precast {

/// "0 us", "3.42 us", "18.1 ms", "2.05 s".
std::string FormatMicroseconds(double microseconds);
/// "0 B", "640 B", "4.00 KiB", "1.25 GiB". Powers of 1024.
std::string FormatBytes(uint64_t bytes);
/// "0 B/s", "100 GB/s", "15.2 Top/s". Powers of 1000.
std::string FormatRate(uint64_t per_second, std::string_view unit);
/// "1,234,567".
std::string FormatCount(uint64_t count);
/// The number that "640", "64K", "256M", "2G" or "1T" means, also with "iB" behind the unit: powers
/// of 1024, in either case. None for anything else, and where 64 bits do not hold it.
std::optional<uint64_t> ParseBytes(std::string_view text);

}  // namespace precast
