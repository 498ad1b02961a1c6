#include "base/log.h"

#include "base/terminal.h"

#include <precast/error.h>

#include <spdlog/logger.h>
#include <spdlog/sinks/ansicolor_sink.h>

#include <array>
#include <unistd.h>

namespace precast {
namespace {

constexpr std::array<std::string_view, 6> kLevelNames = {"trace", "debug", "info",
                                                         "warn",  "error", "off"};

spdlog::level::level_enum SpdlogLevel(LogLevel level) {
  return static_cast<spdlog::level::level_enum>(level == LogLevel::off ? SPDLOG_LEVEL_OFF
                                                                       : static_cast<int>(level));
}

}  // namespace

std::string_view Name(LogLevel level) { return kLevelNames[static_cast<size_t>(level)]; }

LogLevel ParseLogLevel(std::string_view name) {
  for (size_t i = 0; i < kLevelNames.size(); ++i) {
    if (kLevelNames[i] == name) return static_cast<LogLevel>(i);
  }
  Fail(ErrorCode::usage, "there is no log level '{}'; there are {}", name,
       fmt::join(kLevelNames, ", "));
}

// The logger is made here and never registered: spdlog's registry is process-global.
struct Log::Sink {
  Sink()
      : logger("precast", std::make_shared<spdlog::sinks::ansicolor_stderr_sink_mt>(
                              UseColor(STDERR_FILENO) ? spdlog::color_mode::always
                                                      : spdlog::color_mode::never)) {
    logger.set_pattern("precast: %^%l%$: %v");
    logger.set_level(spdlog::level::trace);
    logger.flush_on(spdlog::level::trace);
  }
  spdlog::logger logger;
};

Log::Log(LogLevel level) : sink_(std::make_unique<Sink>()), level_(level) {}
Log::~Log() = default;
Log::Log(Log&&) noexcept = default;
Log& Log::operator=(Log&&) noexcept = default;

void Log::Write(LogLevel level, std::string_view line) const {
  sink_->logger.log(SpdlogLevel(level), spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace precast
