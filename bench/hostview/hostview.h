// The suite "hostview": what it costs an orchestration to look at device memory.
#pragma once

#include <nlohmann/json.hpp>

namespace precast::bench {

/// {"suite": "hostview", "machine", "results": [{"name", "value", "unit"}]}. Units: "ns" and "us"
/// are wall time, medians; "modelled_us" is the platform's clock; the rest are counts.
nlohmann::json MeasureHostViews();

}  // namespace precast::bench
