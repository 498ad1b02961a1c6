// What `precast doctor` says of this machine, this process's limits and the libraries in use.
//
// What the system does not tell is null: an answer that is missing is not an error.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace precast::cli {

/// {"system","processor","features","usable_cores","cores","cpu_quota","clock_source",
///  "invariant_clock","memory_bytes","available_bytes","huge_pages","huge_pages_shared",
///  "memory_files"}
nlohmann::ordered_json MachineJson();

/// {"address_space_bytes","locked_bytes","open_files","threads","file_bytes"}; null: unlimited.
nlohmann::ordered_json LimitsJson();

/// {"fmt": "9.1.0", …}
nlohmann::ordered_json LibrariesJson();

}  // namespace precast::cli
