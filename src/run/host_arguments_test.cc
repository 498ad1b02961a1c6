#include "run/host_arguments.h"

#include "base/tensor_access.h"
#include "platforms/sim/sim_driver.h"
#include "support/faulty_driver.h"

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <string>
#include <vector>

namespace precast::run {
namespace {

using device::Call;
using graph::Builder;

class HostArgumentsTest : public testing::Test {
 protected:
  HostArgumentsTest() {
    memory_.grow = [this](graph::ImageMemory& self, uint64_t bytes, uint64_t) {
      image_.resize(std::max<uint64_t>(bytes, 1 << 16) / 8);
      self.data = reinterpret_cast<char*>(image_.data());
      self.capacity = image_.size() * 8;
    };
    graph_.set_kernel_name([](const graph::TaskSpec&) { return std::string("k"); });
    graph_.Begin(&memory_, 1, 1 << 20);
    std::iota(floats_.begin(), floats_.end(), 0.0f);
  }

  Tensor Part(int64_t begin, int64_t size) { return Tensor::host(floats_.data() + begin, {size}); }
  std::string MakeSpans() {
    try {
      host_.MakeSpans(graph_);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      return error.message();
    }
    return "";
  }
  /// Tensor argument i, as the orchestration would get it.
  Tensor Get(size_t i) {
    const HostArguments::Argument& argument = host_.arguments()[i];
    const HostArguments::Span& span = host_.spans()[argument.span];
    uint64_t offset =
        static_cast<uint64_t>(detail::TensorAccess::HostData(argument.tensor) - span.begin);
    return graph_.MakeTensor(argument.tensor, span.buffer, offset, false);
  }
  void Stage() {
    staging_ = driver_.Allocate(std::max<uint64_t>(host_.Place(), 1));
    staged_ = host_.StageIn(driver_, staging_, graph_);
  }
  /// Sets the float `i` of a span on the device.
  void SetOnDevice(size_t span, size_t i, float value) {
    driver_.CopyToDevice(staging_ + host_.spans()[span].device_offset + 4 * i, &value, 4);
  }
  float GetOnDevice(size_t span, size_t i) {
    float value;
    driver_.CopyToHost(&value, staging_ + host_.spans()[span].device_offset + 4 * i, 4);
    return value;
  }

  device::FaultyDriver driver_{std::make_unique<sim::SimDriver>(sim::A2a3Profile(), 1)};
  std::vector<uint64_t> image_;
  graph::ImageMemory memory_;
  Builder graph_;
  HostArguments host_;
  std::vector<float> floats_ = std::vector<float>(100);
  device::Address staging_ = 0;
  std::pair<uint64_t, uint64_t> staged_;
};

TEST_F(HostArgumentsTest, KeepsSeparateArgumentsApart) {
  host_.Add(Part(50, 10), Direction::out, 0);
  host_.Add(Part(0, 10), Direction::in, 1);
  host_.Add(Part(10, 10), Direction::inout, 2);  // touches the one before, shares nothing
  EXPECT_EQ(MakeSpans(), "");
  ASSERT_EQ(host_.spans().size(), 3u);
  for (const HostArguments::Span& span : host_.spans()) EXPECT_EQ(span.bytes, 40u);
  const HostArguments::Span& first = host_.spans()[host_.arguments()[0].span];
  EXPECT_EQ(first.begin, reinterpret_cast<char*>(&floats_[50]));
  EXPECT_TRUE(first.write_only);
  EXPECT_TRUE(graph_.buffer(first.buffer).is(graph::Buffer::kHasGaps));
  EXPECT_FALSE(host_.spans()[host_.arguments()[2].span].write_only);
  EXPECT_EQ(&host_.SpanOf(first.buffer), &first);
}

TEST_F(HostArgumentsTest, MergesInputsThatShareMemory) {
  host_.Add(Part(40, 20), Direction::in, 0);
  host_.Add(Part(0, 30), Direction::in, 1);
  host_.Add(Part(5, 5), Direction::in, 2);
  host_.Add(Part(20, 21), Direction::in, 3);
  EXPECT_EQ(MakeSpans(), "");
  ASSERT_EQ(host_.spans().size(), 1u);
  EXPECT_EQ(host_.spans()[0].bytes, 240u);
  Stage();
  EXPECT_EQ(staged_, (std::pair<uint64_t, uint64_t>{1, 240}));
  EXPECT_EQ(GetOnDevice(0, 59), 59);
}

TEST_F(HostArgumentsTest, RefusesToShareWhatIsWritten) {
  for (Direction direction : {Direction::out, Direction::inout}) {
    for (bool writer_first : {false, true}) {
      host_.Clear();
      host_.Add(Part(0, 10), writer_first ? direction : Direction::in, 3);
      host_.Add(Part(9, 10), writer_first ? Direction::in : direction, 5);
      EXPECT_EQ(MakeSpans(),
                fmt::format("arguments 3 and 5 of the run overlap in host memory and {} is written "
                            "('{}'); only arguments that are all 'in' may share memory",
                            writer_first ? 3 : 5, Name(direction)));
    }
  }
}

TEST_F(HostArgumentsTest, FindsAWriterBehindReaders) {
  host_.Add(Part(0, 90), Direction::in, 0);
  host_.Add(Part(5, 10), Direction::in, 1);
  host_.Add(Part(80, 15), Direction::out, 2);
  EXPECT_NE(MakeSpans(), "");
  host_.Clear();
  host_.Add(Part(0, 10), Direction::in, 0);
  host_.Add(Part(10, 10), Direction::out, 1);
  host_.Add(Part(20, 10), Direction::in, 2);
  host_.Add(Part(25, 10), Direction::in, 3);
  EXPECT_EQ(MakeSpans(), "");
  EXPECT_EQ(host_.spans().size(), 3u);
}

TEST_F(HostArgumentsTest, PlacesSpansApartAndAligned) {
  host_.Add(Part(0, 1), Direction::in, 0);
  host_.Add(Part(10, 65), Direction::in, 1);
  host_.Add(Part(90, 3), Direction::in, 2);
  MakeSpans();
  EXPECT_EQ(host_.Place(), 256u + 512u + 256u);
  EXPECT_EQ(host_.spans()[1].device_offset, 256u);
  EXPECT_EQ(host_.spans()[2].device_offset, 768u);
}

TEST_F(HostArgumentsTest, StagesWhatTasksMayRead) {
  host_.Add(Part(0, 10), Direction::in, 0);
  host_.Add(Part(20, 10), Direction::inout, 1);
  host_.Add(Part(40, 10), Direction::out, 2);  // written whole
  host_.Add(Part(60, 10), Direction::out, 3);  // written in part
  host_.Add(Part(80, 10), Direction::out, 4);  // may be written, or not
  MakeSpans();
  graph_.Submit({}, {in(Get(0)), out(Get(2))});
  graph_.Submit({}, {out(Get(3).slice(0, 0, 5))});
  graph_.Submit({}, {no_dep(Get(4))});
  Stage();
  EXPECT_EQ(staged_, (std::pair<uint64_t, uint64_t>{4, 160}));
  EXPECT_EQ(GetOnDevice(0, 9), 9);
  EXPECT_EQ(GetOnDevice(1, 0), 20);
  EXPECT_EQ(GetOnDevice(3, 7), 67);  // what stays unwritten shows what was there
  EXPECT_EQ(GetOnDevice(4, 0), 80);
}

TEST_F(HostArgumentsTest, StagesThePrivateBytesOnceSomethingWasSet) {
  host_.Add(Part(0, 10), Direction::inout, 0);
  host_.Add(Part(20, 10), Direction::out, 1);
  MakeSpans();
  for (HostArguments::Span& span : host_.spans()) {
    HostArguments::MakePrivate(span);
    reinterpret_cast<float*>(span.copy.get())[3] = 777;
    HostArguments::MakePrivate(span);  // keeps the copy there is
  }
  graph_.Submit({}, {out(Get(1))});
  Stage();
  EXPECT_EQ(staged_.first, 2u);
  EXPECT_EQ(GetOnDevice(0, 3), 777);
  EXPECT_EQ(GetOnDevice(0, 4), 4);
  EXPECT_EQ(GetOnDevice(1, 3), 777);
  EXPECT_EQ(floats_[3], 3);  // the caller's memory only changes in the end
  auto back = host_.CopyBack(driver_, staging_, graph_);
  EXPECT_EQ(back, (std::pair<uint64_t, uint64_t>{2, 80}));
  EXPECT_EQ(floats_[3], 777);
  EXPECT_EQ(floats_[23], 777);
}

TEST_F(HostArgumentsTest, CopiesBackOnlyWhatATaskMayHaveWritten) {
  host_.Add(Part(0, 10), Direction::inout, 0);
  host_.Add(Part(20, 10), Direction::inout, 1);
  host_.Add(Part(40, 10), Direction::in, 2);
  host_.Add(Part(60, 10), Direction::out, 3);
  MakeSpans();
  graph_.Submit({}, {in(Get(0)), inout(Get(1).slice(0, 2, 3)), in(Get(2))});
  Stage();
  for (size_t span = 0; span < 4; ++span) SetOnDevice(span, 2, -1);
  auto back = host_.CopyBack(driver_, staging_, graph_);
  EXPECT_EQ(back, (std::pair<uint64_t, uint64_t>{1, 40}));
  EXPECT_EQ(floats_[2], 2);
  EXPECT_EQ(floats_[22], -1);
  EXPECT_EQ(floats_[42], 42);
  EXPECT_EQ(floats_[62], 62);
}

TEST_F(HostArgumentsTest, SaysWhatHoldsResultsAlreadyWhenACopyFails) {
  for (uint32_t i = 0; i < 4; ++i) {
    host_.Add(Part(20 * i, 10), i == 1 ? Direction::in : Direction::inout, i);
  }
  MakeSpans();
  graph_.Submit({}, {inout(Get(0)), in(Get(1)), inout(Get(2)), inout(Get(3))});
  Stage();
  for (size_t span = 0; span < 4; ++span) SetOnDevice(span, 2, -1);
  const std::vector<float> before = floats_;
  auto message = [this](uint64_t n) -> std::string {
    driver_.FailNth(n, ErrorCode::io, {Call::copy_to_host});
    try {
      host_.CopyBack(driver_, staging_, graph_);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::io);
      return error.message();
    }
    return "";
  };
  EXPECT_EQ(message(1),
            "argument 0 of the run was not copied back: injected failure of the driver call "
            "copy_to_host");
  EXPECT_EQ(floats_, before);
  EXPECT_EQ(message(3),
            "argument 3 of the run was not copied back: injected failure of the driver call "
            "copy_to_host; these hold their results already: 0 2");
  EXPECT_EQ(floats_[2], -1);
  EXPECT_EQ(floats_[42], -1);
  EXPECT_EQ(floats_[62], 62);
}

TEST_F(HostArgumentsTest, LeavesWhatLiesBetweenTheElementsOfAView) {
  Tensor matrix = Tensor::host(floats_.data(), {10, 10});
  Tensor views[] = {matrix.view({1, 2}, {2, 3}), matrix.view({4, 0}, {3, 10}).slice(1, 1, 10, 4),
                    matrix.view({8, 3}, {2, 2}).transpose(0, 1)};
  for (uint32_t i = 0; i < 3; ++i) host_.Add(views[i], Direction::inout, i);
  ASSERT_EQ(MakeSpans(), "");
  for (size_t i = 0; i < 3; ++i) graph_.Submit({}, {inout(Get(i))});
  Stage();
  for (const HostArguments::Span& span : host_.spans()) {
    driver_.Fill(staging_ + span.device_offset, 0, span.bytes);
  }
  std::vector<float> expected = floats_;
  for (size_t i : {12, 13, 14, 22, 23, 24}) expected[i] = 0;
  for (size_t i : {41, 45, 49, 51, 55, 59, 61, 65, 69}) expected[i] = 0;
  for (size_t i : {83, 84, 93, 94}) expected[i] = 0;
  host_.CopyBack(driver_, staging_, graph_);
  EXPECT_EQ(floats_, expected);
}

TEST_F(HostArgumentsTest, ClearForgetsTheRunBefore) {
  host_.Add(Part(0, 10), Direction::out, 0);
  MakeSpans();
  host_.Clear();
  EXPECT_TRUE(host_.arguments().empty());
  EXPECT_EQ(host_.Place(), 0u);
}

}  // namespace
}  // namespace precast::run
