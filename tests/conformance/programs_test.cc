// Programs: loading, signatures, and runs by program.
#include "conformance/conformance.h"

namespace precast::conformance {
namespace {

using scenes::bump;
using scenes::copy;

Program AddProgram() {
  return {.name = "bump_all",
          .summary = "every tensor is bumped",
          .orchestration =
              [](Orchestrator& o, const Args& args) {
                for (size_t i = 0; i < args.tensors(); ++i) {
                  o.submit(bump, {inout(args.tensor(i)), args.scalar<int64_t>(0)});
                }
              },
          .signature = {{Direction::scalar, DType::i64, 0, "value"},
                        {Direction::inout, DType::i64, 1, "first"},
                        {Direction::inout, DType::i64, ArgSpec::kAnyRank, "others"}},
          .variadic = true,
          .kernels = {bump}};
}

class ProgramTest : public OnPlatform {
 protected:
  Worker worker_{Options()};
};
PRECAST_ON_ALL_PLATFORMS(ProgramTest);

TEST_P(ProgramTest, RunsALoadedProgram) {
  Program program = AddProgram();
  const Program& loaded = worker_.load(program);
  EXPECT_EQ(loaded.name, "bump_all");
  std::vector<int64_t> x = Counted(4), y = Counted(6), z = Counted(4, 100);
  Tensor matrix = Tensor::host(y.data(), {2, 3});
  worker_.run(loaded, {int64_t{2}, inout(x), inout(matrix), inout(z)});
  EXPECT_EQ(x[3], Join(3, 2));
  EXPECT_EQ(y[5], Join(5, 2));
  EXPECT_EQ(z[0], Join(100, 2));
  worker_.submit(loaded, {int64_t{3}, inout(x)}).result();
  EXPECT_EQ(x[3], Join(Join(3, 2), 3));
}

TEST_P(ProgramTest, RunsAProgramThatWasNotLoaded) {
  Program program = AddProgram();
  std::vector<int64_t> x = Counted(4);
  worker_.run(program, {int64_t{2}, inout(x)});
  EXPECT_EQ(x[3], Join(3, 2));
}

TEST_P(ProgramTest, RunsAProgramFromASharedLibrary) {
  const Program& program = worker_.load(PRECAST_TEST_PROGRAMS_DIR "/cli_probe.so");
  EXPECT_EQ(program.name, "cli_probe");
  ASSERT_EQ(program.cases.size(), 1u);
  Params params(program.params);
  auto run = program.cases[0].make({worker_, params, true, {}});
  EXPECT_FALSE(run->Check().pass);
  worker_.run(program, run->Args(0));
  EXPECT_TRUE(run->Check().pass);
  std::vector<int32_t> x(100);
  worker_.run(program, {out(x), false});
  EXPECT_EQ(x, std::vector<int32_t>(100, 7));
}

/// The code of a kernel that was given up stays where it is, as its memory does.
TEST_P(ProgramTest, AKernelOfALibraryMayOutliveTheWorker) {
  std::atomic<int> state{0};  // 1: inside the kernel, 2: it may return, 3: it does
  {
    WorkerOptions options = Options();
    options.threads = 2;
    options.kernel_timeout = std::chrono::milliseconds(30);
    options.log_level = "off";
    Worker worker(options);
    const Program& program = worker.load(PRECAST_TEST_PROGRAMS_DIR "/stuck_probe.so");
    std::vector<int32_t> x(4);
    try {
      worker.run(program, {inout(x), reinterpret_cast<uint64_t>(&state)});
      ADD_FAILURE() << "the kernel should have timed out";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::timeout) << error.message();
    }
    EXPECT_EQ(state, 1);
  }
  state = 2;
  for (int i = 0; i < 10000 && state != 3; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(state, 3);
}

TEST_P(ProgramTest, LoadingTwiceIsOneProgram) {
  Program program = AddProgram();
  EXPECT_EQ(&worker_.load(program), &worker_.load(program));
}

TEST_P(ProgramTest, ProgramsAndPlainOrchestrationsAlternate) {
  Program program = AddProgram();
  worker_.load(program);
  std::vector<int64_t> x = Counted(4), y(4);
  for (int i = 0; i < 4; ++i) {
    worker_.run(program, {int64_t{1}, inout(x)});
    worker_.run(
        [](Orchestrator& o, const Args& args) {
          o.submit(copy, {in(args.tensor(0)), out(args.tensor(1))});
        },
        {in(x), out(y)});
    EXPECT_EQ(x, y);
  }
}

}  // namespace
}  // namespace precast::conformance
