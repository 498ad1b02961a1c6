// Recorded graphs at their boundary: tensors that lie between each other, scalars and tensors of
// whoever stands around a body, and the warning of too many variants.
#include "conformance/conformance.h"

#include <precast/precast.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace precast {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

/// target = source + 1
PRECAST_KERNEL(next, Core::vector)(const KernelContext& k) {
  auto source = k.tensor<const int64_t>(0);
  auto target = k.tensor<int64_t>(1);
  for (int64_t row = 0; row < source.shape(0); ++row) {
    for (int64_t i = 0; i < source.shape(1); ++i) target(row, i) = source(row, i) + 1;
  }
}
/// x += scalar
PRECAST_KERNEL(add, Core::vector)(const KernelContext& k) {
  auto x = k.tensor<int64_t>(0);
  for (int64_t i = 0; i < x.size(); ++i) x[i] += k.scalar<int64_t>(0);
}
/// x = scalar
PRECAST_KERNEL(put, Core::vector)(const KernelContext& k) {
  auto x = k.tensor<int64_t>(0);
  for (int64_t row = 0; row < x.shape(0); ++row) {
    for (int64_t i = 0; i < x.shape(1); ++i) x(row, i) = k.scalar<int64_t>(0);
  }
}

void AddOne(Orchestrator& o, const Args& args) {
  o.submit(add, {inout(args.tensor(0)), int64_t{1}});
}

constexpr int64_t kSide = 8;
constexpr int64_t kSize = kSide * kSide;
using Values = std::vector<int64_t>;

class GraphRulesTest : public conformance::OnWorker {
 protected:
  Values x_ = Values(kSize, 1);
};
PRECAST_ON_ALL_PLATFORMS(GraphRulesTest);

TEST_P(GraphRulesTest, AnOutTensorMayLieBetweenOthers) {
  auto body = [](Orchestrator& o, const Args& a) {
    o.submit(next, {in(a.tensor(0)), out(a.tensor(1))});
  };
  for (int round = 0; round < 2; ++round) {
    RunReport report = worker_.run(
        [&](Orchestrator& o, const Args& args) {
          Tensor m = o.alloc({kSide, kSide}, DType::i64);
          Tensor left = m.slice(1, 0, 4), right = m.slice(1, 4, 8);
          o.submit(put, {out(left), int64_t{5}});
          o.submit_graph("columns", body, {in(left), out(right)});
          o.submit(next, {in(m), out(args.tensor(0).reshape({kSide, kSide}))});
        },
        {inout(x_)});
    EXPECT_EQ(report.graph.definitions_recorded, round == 0 ? 1u : 0u);
    for (int64_t i = 0; i < kSize; ++i) {
      EXPECT_EQ(x_[static_cast<size_t>(i)], i % kSide < 4 ? 6 : 7) << i;
    }
  }
}

TEST_P(GraphRulesTest, AnOutTensorWithGapsIsWrittenWhenItsElementsAre) {
  auto all = [](Orchestrator& o, const Args& a) {
    for (int64_t row = 0; row < kSide; ++row) {
      o.submit(put, {out(a.tensor(0).slice(0, row, row + 1)), int64_t{3}});
    }
  };
  auto most = [](Orchestrator& o, const Args& a) {
    o.submit(put, {out(a.tensor(0).slice(0, 1, kSide)), int64_t{3}});
  };
  auto submit = [&](auto body) {
    return [body](Orchestrator& o, const Args& args) {
      Tensor m = args.tensor(0).reshape({kSide, kSide});
      o.submit_graph("gaps", body, {out(m.slice(1, 2, 6))});
    };
  };
  worker_.run(submit(all), {inout(x_)});
  for (int64_t i = 0; i < kSize; ++i) {
    bool inside = i % kSide >= 2 && i % kSide < 6;
    EXPECT_EQ(x_[static_cast<size_t>(i)], inside ? 3 : 1) << i;
  }
  EXPECT_THAT(Refused(ErrorCode::mismatch, submit(most), {inout(x_)}),
              HasSubstr("does not write all of tensor 0"));
}

// What the body leaves of it would count as written outside.
TEST_P(GraphRulesTest, AnOutTensorSharesNoByteWithAnother) {
  for (bool first : {true, false}) {
    std::string message =
        Refused(ErrorCode::mismatch,
                [&](Orchestrator& o, const Args& args) {
                  Tensor a = args.tensor(0).slice(0, 0, 16), b = args.tensor(0).slice(0, 15, 24);
                  o.submit_graph("shares", AddOne, {inout(first ? a : b), out(first ? b : a)});
                },
                {inout(x_)});
    EXPECT_THAT(message, StartsWith("graph 'shares': i64["));
    EXPECT_THAT(message, HasSubstr("declare it 'inout'"));
  }
}

TEST_P(GraphRulesTest, AnOutTensorIsNotReadFirstWhereverItLies) {
  std::string message =
      Refused(ErrorCode::not_ready,
              [&](Orchestrator& o, const Args& args) {
                Tensor m = args.tensor(0).reshape({kSide, kSide});
                auto body = [](Orchestrator& inner, const Args& a) {
                  inner.submit(next, {in(a.tensor(1)), out(a.tensor(1))});
                };
                o.submit_graph("reads", body, {in(m.slice(1, 0, 4)), out(m.slice(1, 4, 8))});
              },
              {inout(x_)});
  EXPECT_THAT(message, HasSubstr("'out' argument of the graph"));
}

// A captured device tensor and a tensor of the run may have the same numbers.
TEST_P(GraphRulesTest, OtherMemoryIsAnotherSignatureWhereTensorsOverlapped) {
  Tensor device = worker_.malloc({kSize}, DType::i64);
  worker_.copy_to(device, Values(kSize, 1));
  auto body = [](Orchestrator& o, const Args& a) {
    o.submit(add, {inout(a.tensor(0)), int64_t{1}});
    o.submit(add, {inout(a.tensor(1)), int64_t{10}});
  };
  worker_.run(
      [&](Orchestrator& o, const Args& args) {
        Tensor host = args.tensor(0);
        o.submit_graph("two", body, {inout(host.slice(0, 0, 16)), inout(host.slice(0, 8, 24))});
        o.submit_graph("two", body, {inout(device.slice(0, 0, 16)), inout(host.slice(0, 8, 24))});
      },
      {inout(x_)});
  Values found(kSize);
  worker_.copy_from(found, device);
  for (size_t i = 0; i < static_cast<size_t>(kSize); ++i) {
    EXPECT_EQ(found[i], i < 16 ? 2 : 1) << i;
    EXPECT_EQ(x_[i], 1 + (i < 16 ? 1 : 0) + (i >= 8 && i < 24 ? 20 : 0)) << i;
  }
}

// The arguments of whoever stands around a body would be those of the first submission in all.
TEST_P(GraphRulesTest, ABodyHasNoScalarsButItsOwn) {
  static const Args* around = nullptr;
  auto bound = [](Orchestrator& o, const Args& a) {
    o.submit(add, {inout(a.tensor(0)), around->bound_scalar<int64_t>(0)});
  };
  auto value = [](Orchestrator& o, const Args& a) {
    o.submit(add, {inout(a.tensor(0)), around->scalar<int64_t>(0)});
  };
  auto nested = [](Orchestrator& o, const Args& a) {
    around = &a;
    auto inner_body = [](Orchestrator& inner, const Args& b) {
      inner.submit(add, {inout(b.tensor(0)), around->bound_scalar<int64_t>(0)});
    };
    o.submit_graph("inner", inner_body, {inout(a.tensor(0)), int64_t{2}});
  };
  auto refused = [&](auto body) {
    return Refused(ErrorCode::stale,
                   [&](Orchestrator& o, const Args& args) {
                     around = &args;
                     o.submit_graph("outer", body, {inout(args.tensor(0)), int64_t{7}});
                   },
                   {inout(x_), int64_t{5}});
  };
  EXPECT_THAT(refused(bound), HasSubstr("not the one being built"));
  EXPECT_THAT(refused(value), HasSubstr("not the one being built"));
  EXPECT_THAT(refused(nested), StartsWith("graph 'outer': graph 'inner': scalar argument 0"));

  auto keep = [](Orchestrator& o, const Args& a) {
    around = &a;
    AddOne(o, a);
  };
  EXPECT_THAT(Refused(ErrorCode::stale,
                      [&](Orchestrator& o, const Args& args) {
                        o.submit_graph("keep", keep, {inout(args.tensor(0)), int64_t{7}});
                        around->scalar<int64_t>(0);
                      },
                      {inout(x_)}),
              HasSubstr("not the one being built"));
}

TEST_P(GraphRulesTest, DeviceMemoryIsReadThroughTheBoundaryOnly) {
  static Tensor device;
  device = worker_.malloc({kSize}, DType::i64);
  worker_.memset(device, 0);
  auto get = [](Orchestrator& o, const Args& a) {
    o.get_tensor_data<int64_t>(device, {0});
    AddOne(o, a);
  };
  EXPECT_THAT(Refused(ErrorCode::mismatch,
                      [&](Orchestrator& o, const Args& args) {
                        o.submit_graph("gets", get, {inout(args.tensor(0))});
                      },
                      {inout(x_)}),
              HasSubstr("is not on the boundary of graph 'gets'"));
}

TEST_P(GraphRulesTest, AFatalErrorOfABodyStaysOne) {
  auto fatal = [](Orchestrator& o, const Args&) { o.report_fatal(3, "no way"); };
  EXPECT_EQ(Refused(ErrorCode::fatal,
                    [&](Orchestrator& o, const Args& args) {
                      try {
                        o.submit_graph("fatal", fatal, {inout(args.tensor(0))});
                      } catch (const Error&) {
                      }
                      AddOne(o, args);
                    },
                    {inout(x_)}),
            "graph 'fatal': its body reported fatal error 3: no way");
}

TEST_P(GraphRulesTest, MessagesNameTheGraph) {
  auto throws = [](Orchestrator&, const Args&) { throw std::runtime_error("oh"); };
  auto nothing = [](Orchestrator&, const Args&) {};
  auto tensor = [](Orchestrator&, const Args& a) { a.tensor(4); };
  auto submit = [](auto body) {
    return [body](Orchestrator& o, const Args& args) {
      o.submit_graph("g", body, {inout(args.tensor(0))});
    };
  };
  EXPECT_EQ(Refused(ErrorCode::orchestration, submit(throws), {inout(x_)}),
            "graph 'g': its body threw: oh");
  EXPECT_EQ(Refused(ErrorCode::orchestration, submit(nothing), {inout(x_)}),
            "graph 'g': its body submitted no task (at least 1 needed)");
  EXPECT_EQ(Refused(ErrorCode::out_of_range, submit(tensor), {inout(x_)}),
            "graph 'g': tensor argument 4 of 1");
  EXPECT_THAT(Refused(ErrorCode::mismatch, submit(AddOne), {in(x_)}),
              StartsWith("task 0 (graph g): argument 0 (i64[64]) is an 'in' argument of the run"));
}

void Recursive(Orchestrator& o, const Args& args) {
  o.submit_graph("again", Recursive, {inout(args.tensor(0))});
}

TEST_P(GraphRulesTest, AGraphThatRecursIsNamedOnce) {
  EXPECT_THAT(Refused(ErrorCode::invalid_argument, Recursive, {inout(x_)}),
              StartsWith("graph 'again': graph 'again' stands in 64 others"));
}

TEST_P(GraphRulesTest, TooManyVariantsAreAWarningThatSaysWhatVaries) {
  Worker worker({.platform = GetParam(), .threads = 1, .variant_limit = 3});
  static auto body = [](Orchestrator& o, const Args& a) {
    int64_t sum = a.scalar<int64_t>(1) + o.get_tensor_data<int64_t>(a.tensor(1), {2});
    o.submit(add, {inout(a.tensor(0)), sum});
  };
  auto nest = [](Orchestrator& o, const Args& a) {
    for (int64_t i = 0; i < 5; ++i) {
      o.submit_graph("many", body, {inout(a.tensor(0)), in(a.tensor(1)), int64_t{0}, i});
    }
  };
  Values y(kSize);
  auto warnings = [&](int64_t begin, int64_t end, bool shapes, bool bytes) {
    return worker
        .run(
            [&](Orchestrator& o, const Args& args) {
              for (int64_t i = begin; i < end; ++i) {
                if (bytes) o.set_tensor_data<int64_t>(args.tensor(1), {2}, i);
                o.submit_graph("many", body,
                               {inout(shapes ? args.tensor(0).slice(0, 0, i) : args.tensor(0)),
                                in(args.tensor(1)), int64_t{0}, i});
              }
            },
            {inout(x_), inout(y)})
        .warnings;
  };
  EXPECT_THAT(warnings(0, 3, false, false), ElementsAre());
  EXPECT_THAT(
      warnings(0, 6, false, false),
      ElementsAre(HasSubstr("graph 'many' has 4 variants (variant_limit is 3), which differ in "
                            "scalar 1")));
  EXPECT_THAT(warnings(0, 6, false, false), ElementsAre()) << "nothing new";
  EXPECT_THAT(warnings(7, 8, true, true),
              ElementsAre(HasSubstr("has 7 variants (variant_limit is 3), which differ in the "
                                    "shape of tensor 0, scalar 1, bytes 16 … 16 of tensor 1")));

  Worker other({.platform = GetParam(), .threads = 1, .variant_limit = 3});
  RunReport report = other.run(
      [&](Orchestrator& o, const Args& args) {
        o.submit_graph("nest", nest, {inout(args.tensor(0)), in(args.tensor(1))});
      },
      {inout(x_), in(y)});
  EXPECT_THAT(report.warnings, ElementsAre(HasSubstr("graph 'many' has 4 variants")));
}

}  // namespace
}  // namespace precast
