// Programs that come as shared libraries: their results, and a kernel that misses its tensor.
// Usage: consumer path/to/saxpy.so path/to/beyond.so

#include <precast/precast.h>

#include <fmt/core.h>

#include <algorithm>
#include <vector>

using namespace precast;

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  Worker worker({.platform = "a2a3sim"});
  std::vector<float> x(1000, 1), y(1000, 2);
  const Program& saxpy = worker.load(argv[1]);
  worker.run(saxpy, {in(x), inout(y), 0.5f});
  if (!std::all_of(y.begin(), y.end(), [](float v) { return v == 3; })) {
    fmt::print("saxpy: wrong result\n");
    return 1;
  }

  try {
    worker.run(worker.load(argv[2]), {out(x)});
    fmt::print("beyond: an index beyond the end was not found\n");
    return 1;
  } catch (const Error& error) {
    fmt::print("{}\n", error.message());
    if (error.code() != ErrorCode::out_of_range) return 1;
  }
}
