#include "misuse/misuse.h"

#include <tuple>

namespace precast::misuse {
namespace {

const std::vector<Misuse>& AllMisuse() {
  static const std::vector<Misuse> all = [] {
    std::vector<Misuse> table;
    for (auto part : {MemoryMisuse, ArgumentMisuse, ProgramMisuse, TaskMisuse, LifetimeMisuse,
                      HostAccessMisuse, OrchestrationMisuse, KernelMisuse}) {
      for (Misuse& entry : part()) table.push_back(std::move(entry));
    }
    return table;
  }();
  return all;
}

/// A run that a working worker does right, larger than those of the table.
void ExpectWorks(Worker& worker) {
  std::vector<int64_t> x(1000), y(1000), expected(1000);
  for (size_t i = 0; i < x.size(); ++i) expected[i] = x[i] = static_cast<int64_t>(i);
  worker.run(
      [](Orchestrator& o, const Args& args) {
        Tensor t = o.alloc({20000}, DType::i64, 3);
        Tensor part = t.slice(0, 0, 2000, 2);
        o.submit(copy, {in(args.tensor(0)), out(part)}, {.blocks = 4});
        for (int64_t i = 0; i < 300; ++i) o.submit(bump, {inout(part), i}, {.name = "step"});
        o.submit(copy, {in(part), out(args.tensor(1))});
      },
      {in(x), out(y)});
  for (int64_t& value : expected) {
    for (int64_t i = 0; i < 300; ++i) value = scenes::Join(value, i);
  }
  EXPECT_EQ(y, expected);
}

class MisuseTest : public testing::TestWithParam<std::tuple<size_t, std::string>> {};

TEST_P(MisuseTest, IsAnErrorAndTheWorkerGoesOn) {
  const Misuse& misuse = AllMisuse()[std::get<0>(GetParam())];
  Worker worker({.platform = std::get<1>(GetParam()), .threads = 2});
  ExpectWorks(worker);
  Bytes in_use = worker.properties().memory_in_use;
  for (int round = 0; round < 2; ++round) {
    ExpectError(misuse.code, misuse.words, [&] { misuse.act(worker); });
    ExpectWorks(worker);
    EXPECT_EQ(worker.properties().memory_in_use, in_use);
  }
}

std::string NameOf(const testing::TestParamInfo<MisuseTest::ParamType>& test) {
  return AllMisuse()[std::get<0>(test.param)].name + "_" + std::get<1>(test.param);
}

INSTANTIATE_TEST_SUITE_P(All, MisuseTest,
                         testing::Combine(testing::Range(size_t{0}, AllMisuse().size()),
                                          testing::Values("cpu", "a2a3sim")),
                         NameOf);

}  // namespace

void ExpectError(ErrorCode code, const std::vector<std::string>& words,
                 const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_EQ(Name(error.code()), Name(code)) << error.message();
    for (const std::string& word : words) {
      EXPECT_NE(error.message().find(word), std::string::npos)
          << "\"" << word << "\" is missing in: " << error.message();
    }
    return;
  } catch (const std::exception& error) {
    ADD_FAILURE() << "threw something that is not a precast::Error: " << error.what();
    return;
  }
  ADD_FAILURE() << "threw nothing";
}

}  // namespace precast::misuse
