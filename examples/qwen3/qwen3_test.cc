// The qwen3 job against a separate forward pass in plain loops, on every platform and by every
// executor, and with input that it must refuse.
#include "qwen3/random_model.h"
#include "qwen3/reference.h"
#include "qwen3/sampler.h"
#include "qwen3/testing.h"
#include "qwen3/tokenizer.h"
#include "qwen3/utf8.h"

#include <precast/precast.h>

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

const precast::Program& precast_program_qwen3();

namespace precast::qwen3 {
namespace {

using testing::ExpectError;
using testing::TempFile;

struct Generated {
  std::string text;
  GoldenResult golden;
  int rounds = 0;
  std::vector<int> recorded;  // rounds that recorded a definition
};

using Settings = std::vector<std::pair<std::string, std::string>>;

/// What `precast run qwen3` does, with these parameters.
Generated Generate(const WorkerOptions& worker_options, const RunOptions& run_options,
                   const Settings& settings) {
  const Program& program = precast_program_qwen3();
  Params params(program.params);
  for (const auto& [name, value] : settings) params.Set(name, value);
  Worker worker(worker_options);
  auto run = program.cases.front().make({.worker = worker, .params = params, .stream = {}});
  Generated result;
  for (; run->WantsRound(result.rounds, 0); ++result.rounds) {
    RunReport report = worker.run(program, run->Args(result.rounds), run_options);
    if (report.graph.definitions_recorded > 0) result.recorded.push_back(result.rounds);
    run->After(result.rounds, report);
  }
  result.text = *run->Text();
  result.golden = run->Check();
  return result;
}

Settings Greedy(const std::string& model, std::string prompt, int tokens) {
  return {{"model", model},
          {"prompt", std::move(prompt)},
          {"tokens", std::to_string(tokens)},
          {"temperature", "0"}};
}

/// The greedy continuation by the plain forward pass.
std::string ReferenceText(const std::string& path, const std::string& prompt, int tokens) {
  GgufFile file = GgufFile::Open(path);
  Tokenizer tokenizer(file);
  Reference reference(file);
  Sampler sampler({});
  std::span<const float> logits;
  for (int32_t token : tokenizer.Encode(prompt)) logits = reference.Forward(token);
  std::string text;
  for (int i = 0; i < tokens; ++i) {
    int32_t token = sampler.Sample(logits);
    if (tokenizer.IsEnd(token)) break;
    text += tokenizer.Bytes(token);
    if (i + 1 < tokens) logits = reference.Forward(token);
  }
  return ReplaceInvalidUtf8(text);
}

class Qwen3Test : public ::testing::TestWithParam<GgufType> {
 protected:
  static RandomModelOptions Options(GgufType type) {
    RandomModelOptions options;
    options.config = TinyConfig();
    options.config.context = 160;  // three chunks of attention
    options.type = type;
    return options;
  }
  TempFile model_{RandomModel(Options(GetParam()))};
};

INSTANTIATE_TEST_SUITE_P(Types, Qwen3Test,
                         ::testing::Values(GgufType::f32, GgufType::f16, GgufType::bf16,
                                           GgufType::q8_0),
                         [](const auto& test) { return std::string(Name(test.param)); });

TEST_P(Qwen3Test, ALayerIsRecordedOnceForEachNumberOfChunks) {
  for (const char* platform : {"cpu", "a2a3sim", "a5sim"}) {
    Generated found = Generate({.platform = platform}, {}, Greedy(model_.path(), "To be", 150));
    ASSERT_GT(found.rounds, 128);
    EXPECT_EQ(found.recorded, (std::vector<int>{0, 64, 128}));
  }
}

TEST_P(Qwen3Test, EveryPlatformAndExecutorWritesWhatThePlainForwardPassWrites) {
  const std::string prompt = "To be, or not to be";
  const int tokens = 120;
  const std::string expected = ReferenceText(model_.path(), prompt, tokens);
  ASSERT_FALSE(expected.empty());
  const Settings settings = Greedy(model_.path(), prompt, tokens);
  for (const char* platform : {"cpu", "a2a3sim", "a2a3sim:host_page=64k", "a5sim"}) {
    for (int threads : {1, 2, 8}) {
      SCOPED_TRACE(fmt::format("{}, {} threads", platform, threads));
      Generated found = Generate({.platform = platform, .threads = threads}, {}, settings);
      EXPECT_EQ(found.text, expected);
      EXPECT_TRUE(found.golden.pass) << found.golden.detail;
    }
    Generated found =
        Generate({.platform = platform}, {.oracle = true, .poison_outputs = true}, settings);
    EXPECT_EQ(found.text, expected) << platform << ", oracle";
    EXPECT_TRUE(found.golden.pass) << found.golden.detail;
  }
}

class Qwen3JobTest : public ::testing::Test {
 protected:
  static RandomModelOptions Options() {
    RandomModelOptions options;
    options.config = TinyConfig();
    return options;
  }
  Generated Run(const Settings& settings) { return Generate({.threads = 1}, {}, settings); }
  TempFile model_{RandomModel(Options())};
};

TEST_F(Qwen3JobTest, OneRunForEachTokenOfPromptAndAnswer) {
  EXPECT_EQ(Run(Greedy(model_.path(), "abc", 5)).rounds, 3 + 5 - 1);
}

TEST_F(Qwen3JobTest, StopsWhereTheContextEnds) {
  Generated found = Run(Greedy(model_.path(), "abc", 1000));
  EXPECT_LE(found.rounds, static_cast<int>(TinyConfig().context));
  EXPECT_TRUE(found.golden.pass) << found.golden.detail;
}

TEST_F(Qwen3JobTest, SaysOnlyWhatWasMeasured) {
  const Program& program = precast_program_qwen3();
  Params params(program.params);
  for (const auto& [name, value] : Greedy(model_.path(), "a", 1)) params.Set(name, value);
  Worker worker({.threads = 1});
  auto summary = [&](double in_kernels_us) {
    auto run = program.cases.front().make({.worker = worker, .params = params, .stream = {}});
    RunReport report = worker.run(program, run->Args(0));
    report.total_us = 20;
    report.in_kernels_us = in_kernels_us;
    run->After(0, report);
    return run->Summary();
  };
  EXPECT_EQ(summary(15),
            "1 token of prompt, 1 generated, 50000 tokens/s\n"
            "time per generated token, median: 20.0 us = 15.0 us inside kernels + 5.0 us outside");
  EXPECT_EQ(summary(-1),
            "1 token of prompt, 1 generated, 50000 tokens/s\n"
            "time per generated token, median: 20.0 us");
}

TEST_F(Qwen3JobTest, GivesNoTextWhenNothingIsExecuted) {
  const Program& program = precast_program_qwen3();
  Params params(program.params);
  for (const auto& [name, value] : Greedy(model_.path(), "abc", 5)) params.Set(name, value);
  Worker worker({.threads = 1});
  std::string shown;
  auto run = program.cases.front().make(
      {.worker = worker, .params = params, .execute = false, .stream = [&](std::string_view text) {
         shown += text;
       }});
  int rounds = 0;
  for (; run->WantsRound(rounds, 0); ++rounds) {
    run->After(rounds, worker.run(program, run->Args(rounds), {.skip_device_run = true}));
  }
  EXPECT_EQ(rounds, 3 + 5 - 1) << "as many as a run that executes";
  EXPECT_EQ(run->Text(), nullptr);
  EXPECT_EQ(shown, "");
  EXPECT_TRUE(run->Facts().empty());
}

TEST_F(Qwen3JobTest, TheSeedDecidesWhatIsDrawn) {
  Settings settings = {{"model", model_.path()}, {"tokens", "30"}, {"temperature", "1.5"}};
  auto with_seed = [&](const char* seed) {
    Settings all = settings;
    all.emplace_back("seed", seed);
    return Run(all).text;
  };
  EXPECT_EQ(with_seed("7"), with_seed("7"));
  EXPECT_NE(with_seed("7"), with_seed("8"));
}

TEST_F(Qwen3JobTest, AnEmptyPromptIsTheBeginningOfALine) {
  EXPECT_EQ(Run(Greedy(model_.path(), "", 8)).text, Run(Greedy(model_.path(), "\n", 8)).text);
}

TEST_F(Qwen3JobTest, AcceptsBytesThatAreNotText) {
  Generated found = Run(Greedy(model_.path(), "\xff\xfe\x80 a", 8));
  EXPECT_TRUE(found.golden.pass) << found.golden.detail;
}

TEST_F(Qwen3JobTest, RefusesAPromptThatLeavesNoRoom) {
  ExpectError(ErrorCode::out_of_range, {"48 tokens", "holds 48", "at most 47"},
              [&] { Run(Greedy(model_.path(), std::string(48, 'x'), 5)); });
  Settings short_context = Greedy(model_.path(), "abcdefgh", 5);
  short_context.emplace_back("context", "8");
  ExpectError(ErrorCode::out_of_range, {"8 tokens", "at most 7"}, [&] { Run(short_context); });
}

TEST_F(Qwen3JobTest, RefusesParametersOutsideTheirRange) {
  auto with = [&](const char* name, const char* value) {
    Settings settings = Greedy(model_.path(), "a", 2);
    settings.emplace_back(name, value);
    return [this, settings] { Run(settings); };
  };
  ExpectError(ErrorCode::usage, {"temperature", "-1"}, with("temperature", "-1"));
  ExpectError(ErrorCode::usage, {"top-p", "2"}, with("top-p", "2"));
  ExpectError(ErrorCode::usage, {"tokens", "0"}, with("tokens", "0"));
  ExpectError(ErrorCode::usage, {"context", "49", "48"}, with("context", "49"));
  ExpectError(ErrorCode::not_found, {"no-such-parameter"}, with("no-such-parameter", "1"));
}

TEST_F(Qwen3JobTest, RefusesFilesThatAreNoModel) {
  ExpectError(ErrorCode::not_found, {"/no/such/model.gguf"},
              [&] { Run(Greedy("/no/such/model.gguf", "a", 2)); });
  std::string bytes = RandomModel(Options());
  TempFile truncated(std::string_view(bytes).substr(0, bytes.size() / 2));
  ExpectError(ErrorCode::bad_file, {}, [&] { Run(Greedy(truncated.path(), "a", 2)); });
  TempFile text("this is no model, only some text that is longer than a header");
  ExpectError(ErrorCode::bad_file, {}, [&] { Run(Greedy(text.path(), "a", 2)); });
}

TEST_F(Qwen3JobTest, FreesTheDeviceWhenAModelCannotBeLoaded) {
  RandomModelOptions options = Options();
  options.tokenizer = false;
  TempFile without_tokenizer(RandomModel(options));
  Worker worker({.threads = 1});
  uint64_t before = worker.properties().memory_in_use;
  const Program& program = precast_program_qwen3();
  Params params(program.params);
  params.Set("model", without_tokenizer.path());
  ExpectError(ErrorCode::bad_file, {"tokenizer"}, [&] {
    program.cases.front().make({.worker = worker, .params = params, .stream = {}});
  });
  EXPECT_EQ(worker.properties().memory_in_use, before);
}

}  // namespace
}  // namespace precast::qwen3
