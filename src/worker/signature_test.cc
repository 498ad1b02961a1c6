#include "worker/signature.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace precast::detail {
namespace {

using testing::HasSubstr;

PRECAST_KERNEL(nothing, Core::vector)(const KernelContext&) {}

Program Valid() {
  return {.name = "p",
          .orchestration = [](Orchestrator&, const Args&) {},
          .signature = {{Direction::in, DType::f32, 2, "x"},
                        {Direction::scalar, DType::i32, 0, "n"},
                        {Direction::inout, DType::none, ArgSpec::kAnyRank, "rest"}},
          .kernels = {nothing}};
}

template <typename F>
std::string MessageOf(ErrorCode code, F&& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(Name(error.code()), Name(code)) << error.message();
    return error.message();
  }
  return "";
}

std::string Complaint(const Program& program) {
  return MessageOf(ErrorCode::invalid_argument, [&] { CheckProgram(program); });
}

TEST(CheckProgramTest, AcceptsAWholeProgram) {
  EXPECT_EQ(Complaint(Valid()), "");
  Program variadic = Valid();
  variadic.variadic = true;
  EXPECT_EQ(Complaint(variadic), "");
  Program bare{.name = "p", .orchestration = [](Orchestrator&, const Args&) {}};
  EXPECT_EQ(Complaint(bare), "");
}

TEST(CheckProgramTest, NamesWhatIsMissing) {
  Program program = Valid();
  program.name = "";
  EXPECT_EQ(Complaint(program), "a program without a name");
  program = Valid();
  program.orchestration = nullptr;
  EXPECT_EQ(Complaint(program), "program 'p' has no orchestration");
  program = Valid();
  program.kernels.push_back({"empty", Core::cube, nullptr});
  EXPECT_EQ(Complaint(program), "program 'p': kernel 'empty' has no function");
  program = Valid();
  program.kernels.push_back({});
  EXPECT_EQ(Complaint(program), "program 'p': kernel '' has no function");
  program = Valid();
  program.signature.clear();
  program.variadic = true;
  EXPECT_EQ(Complaint(program), "program 'p' is variadic but its signature is empty");
}

TEST(CheckProgramTest, NamesABadArgument) {
  Program program = Valid();
  program.signature[0].rank = 6;
  EXPECT_EQ(Complaint(program),
            "program 'p': argument 'x' is 'in' of rank 6 (in, out, inout or scalar, rank 0 … 5 "
            "allowed)");
  program.signature[0].rank = -2;
  EXPECT_NE(Complaint(program), "");
  program = Valid();
  program.signature[2].direction = Direction::no_dep;
  EXPECT_NE(Complaint(program), "");
}

TEST(CheckProgramTest, NamesAValueThatNoEnumeratorHas) {
  Program program = Valid();
  program.signature[1].direction = static_cast<Direction>(9);
  EXPECT_THAT(Complaint(program), HasSubstr("argument 'n' is 'unknown' of rank 0"));
  program = Valid();
  program.signature[0].dtype = static_cast<DType>(77);
  EXPECT_EQ(Complaint(program), "program 'p': argument 'x' has the unknown dtype 77");
  program = Valid();
  program.kernels[0].core = static_cast<Core>(2);
  EXPECT_EQ(Complaint(program),
            "program 'p': kernel 'nothing' is for cores of kind 2 (0, cube, and 1, vector, "
            "allowed)");
}

TEST(CheckDescriptorTest, WantsNamesAndCasesThatCanBeMade) {
  auto complaint = [](const Program& program) {
    return MessageOf(ErrorCode::invalid_argument, [&] { CheckDescriptor(program); });
  };
  auto make = [](const CaseContext&) { return std::unique_ptr<CaseRun>(); };
  Program whole = Valid();
  whole.cases = {{"a", "", make}, {"b", "", make}};
  whole.params = {{"n", "1", ""}, {"m", "1", ""}};
  EXPECT_EQ(complaint(whole), "");
  Program program = whole;
  program.cases[1].name = "a";
  EXPECT_EQ(complaint(program), "program 'p' has two of the case 'a'");
  program = whole;
  program.cases[0].make = nullptr;
  EXPECT_EQ(complaint(program), "program 'p': case 'a' has no function that makes it");
  program = whole;
  program.params[0].name = "";
  EXPECT_EQ(complaint(program), "program 'p' has a parameter without a name");
  program = whole;
  program.name = "";
  EXPECT_EQ(complaint(program), "a program without a name");
}

class CheckSignatureTest : public testing::Test {
 protected:
  std::string Complaint(ArgList args) {
    return MessageOf(ErrorCode::mismatch, [&] { CheckSignature(program_, args); });
  }
  Program program_ = Valid();
  std::vector<float> floats_ = std::vector<float>(12);
  std::vector<double> doubles_ = std::vector<double>(12);
  Tensor x_ = Tensor::host(floats_.data(), {3, 4});
};

TEST_F(CheckSignatureTest, AcceptsWhatFits) {
  EXPECT_EQ(Complaint({in(x_), 7, inout(doubles_)}), "");
  EXPECT_EQ(Complaint({in(x_), 7, inout(floats_)}), "");
}

TEST_F(CheckSignatureTest, CountsArguments) {
  EXPECT_EQ(Complaint({in(x_), 7}), "program 'p' takes 3 arguments, 2 were passed");
  EXPECT_EQ(Complaint({in(x_), 7, inout(floats_), inout(doubles_)}),
            "program 'p' takes 3 arguments, 4 were passed");
}

TEST_F(CheckSignatureTest, AVariadicProgramTakesTheLastOneAnyNumberOfTimes) {
  program_.variadic = true;
  EXPECT_EQ(Complaint({in(x_), 7}), "");
  EXPECT_EQ(Complaint({in(x_), 7, inout(floats_), inout(doubles_), inout(doubles_)}), "");
  EXPECT_EQ(Complaint({in(x_)}), "program 'p' takes at least 2 arguments, 1 were passed");
  std::string complaint = Complaint({in(x_), 7, inout(floats_), in(doubles_)});
  EXPECT_THAT(complaint, testing::StartsWith("program 'p': argument 3 'rest' must be 'inout'"));
  EXPECT_THAT(complaint, testing::EndsWith("of any rank, 'in' f64 of rank 1 was passed"));
}

TEST_F(CheckSignatureTest, NamesTheArgumentThatDoesNotFit) {
  EXPECT_EQ(
      Complaint({out(x_), 7, inout(floats_)}),
      "program 'p': argument 0 'x' must be 'in' f32 of rank 2, 'out' f32 of rank 2 was passed");
  EXPECT_EQ(
      Complaint({in(floats_), 7, inout(floats_)}),
      "program 'p': argument 0 'x' must be 'in' f32 of rank 2, 'in' f32 of rank 1 was passed");
  EXPECT_EQ(Complaint({in(x_), 7.0f, inout(floats_)}),
            "program 'p': argument 1 'n' must be a scalar i32, a scalar f32 was passed");
  EXPECT_EQ(Complaint({in(x_), in(floats_), inout(floats_)}),
            "program 'p': argument 1 'n' must be a scalar i32, 'in' f32 of rank 1 was passed");
  EXPECT_EQ(Complaint({1, 7, inout(floats_)}),
            "program 'p': argument 0 'x' must be 'in' f32 of rank 2, a scalar i32 was passed");
}

TEST(CheckThreadsTest, AllowsOneToTheMost) {
  CheckThreads(1);
  CheckThreads(256);
  for (int threads : {0, -1, 257}) {
    EXPECT_EQ(MessageOf(ErrorCode::invalid_argument, [&] { CheckThreads(threads); }),
              std::to_string(threads) + " threads (1 … 256 allowed)");
  }
}

}  // namespace
}  // namespace precast::detail
