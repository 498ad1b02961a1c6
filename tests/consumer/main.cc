// The first program of the README, then a program that comes as a shared library.
// Usage: consumer path/to/saxpy.so

#include <precast/precast.h>

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <vector>

using namespace precast;

PRECAST_KERNEL(add, Core::vector)(const KernelContext& k) {  // runs once per block
  auto a = k.tensor<const float>(0), b = k.tensor<const float>(1);
  auto c = k.tensor<float>(2);
  for (int64_t i = k.block_begin(c.size()); i < k.block_end(c.size()); ++i) c[i] = a[i] + b[i];
}

void vector_add(Orchestrator& o, const Args& args) {  // runs on the host
  Tensor sum = o.alloc(args.tensor(0).shape(), DType::f32);
  o.submit(add, {in(args.tensor(0)), in(args.tensor(1)), out(sum)}, {.blocks = 8});
  o.submit(add, {in(sum), in(args.tensor(1)), out(args.tensor(2))});
}

bool all(const std::vector<float>& values, float expected) {
  return std::all_of(values.begin(), values.end(), [=](float v) { return v == expected; });
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  Worker worker({.platform = "a2a3sim"});
  std::vector<float> x(1 << 20, 1), y(1 << 20, 2), z(1 << 20);
  RunReport report = worker.run(vector_add, {in(x), in(y), out(z)});
  fmt::print("{}\n", report);  // the table of phases
  if (!all(z, 5)) {
    fmt::print("vector_add: wrong result\n");
    return 1;
  }

  const Program& saxpy = worker.load(argv[1]);
  worker.run(saxpy, {in(x), inout(y), 0.5f});
  if (!all(y, 2.5f)) {
    fmt::print("saxpy: wrong result\n");
    return 1;
  }
  fmt::print("vector_add and {}: results are right\n", saxpy.name);
}
