// The region map against brute force: every pair of accesses of a random program is compared byte
// by byte, and edges must give exactly the order that these pairs demand.

#include "graph/region_map.h"
#include "graph/region_samples_test.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bitset>
#include <random>
#include <string>
#include <vector>

namespace precast::graph {
namespace {

using namespace samples;
using abi::TaskId;

// Runs a random program and compares. Counts what happened, for tests of the counts.
class Checker {
 public:
  Checker(RegionMap& map, uint32_t seed, const Source& source)
      : map_(map), random_(seed), source_(source) {}

  void Run(uint32_t tasks, uint32_t buffers) {
    map_.Clear();
    for (uint32_t i = 0; i < buffers; ++i) ASSERT_EQ(map_.AddBuffer(kBytes), i);
    claimant_.assign(buffers, 0);
    after_.assign(1, {});
    for (TaskId task = 1; task <= tasks; ++task) {
      after_.emplace_back();
      uint32_t accesses = 1 + Below(random_, 3);
      for (uint32_t i = 0; i < accesses; ++i) Access(task);
      CheckOrder(task);
      if (testing::Test::HasFailure()) return;
      if (Below(random_, 8) == 0) Look();
    }
    for (uint32_t i = 0; i < buffers; ++i) CheckLive(i);
  }

 private:
  enum class Kind { read, write, unordered };
  struct Record {
    TaskId task;
    BufferId buffer;
    Kind kind;
    uint64_t begin, end;
    uint32_t layout;
    Bytes bytes;

    bool Meets(const Record& other) const {
      return begin < other.end && other.begin < end && (bytes & other.bytes).any();
    }
  };
  static constexpr size_t kMaxTasks = 512;
  using Tasks = std::bitset<kMaxTasks>;

  Record RecordOf(TaskId task, BufferId buffer, Kind kind, const Region& region) {
    uint64_t end = region.begin + region.layout->extent;
    return {task, buffer, kind, region.begin, end, region.layout_id, BytesOf(region)};
  }

  void Access(TaskId task) {
    BufferId buffer = Below(random_, static_cast<uint32_t>(claimant_.size()));
    Region region = source_.next(random_, layouts_);
    if (!records_.empty() && Below(random_, 3) == 0) {  // again what was there before
      const Record& old = records_[Below(random_, static_cast<uint32_t>(records_.size()))];
      buffer = old.buffer;
      region = layouts_.At(old.begin, old.layout);
    }
    uint32_t dice = Below(random_, 32);
    Kind kind = dice == 0 ? Kind::unordered : dice < 16 ? Kind::read : Kind::write;
    // The whole is often written, so that there is much to come of it.
    if (region.layout->extent == kBytes && Below(random_, 4) != 0) kind = Kind::write;
    bool first = std::none_of(records_.begin(), records_.end(),
                              [&](const Record& r) { return r.buffer == buffer; });
    if (first && task > 1 && Below(random_, 2) == 0) {
      map_.Claim(buffer, task);
      claimant_[buffer] = task;
    }
    Record now = RecordOf(task, buffer, kind, region);
    auto edge = [&](TaskId producer) { Edge(producer, now); };
    if (kind == Kind::read) Read(buffer, region, task, edge);
    if (kind == Kind::write) Write(buffer, region, task, edge);
    if (kind == Kind::unordered) {
      map_.Unordered(buffer, region, task);
      if (claimant_[buffer] != task && claimant_[buffer] != 0) Edge(claimant_[buffer], now);
    }
    records_.push_back(now);
  }

  // By the short way where there is one, every other time.
  template <typename Edge>
  void Read(BufferId buffer, const Region& region, TaskId task, Edge&& edge) {
    TaskId producer;
    if (Below(random_, 2) == 0 || !map_.ReadWhole(map_[buffer], region, task, &producer)) {
      return map_.Read(buffer, region, task, edge);
    }
    if (producer != 0 && producer != task) edge(producer);
  }
  template <typename Edge>
  void Write(BufferId buffer, const Region& region, TaskId task, Edge&& edge) {
    TaskId producers[2];
    if (Below(random_, 2) == 0 || !map_.WriteWhole(map_[buffer], region, task, producers)) {
      return map_.Write(buffer, region, task, edge);
    }
    for (TaskId producer : producers) {
      if (producer != 0 && producer != task) edge(producer);
    }
  }

  bool Conflict(const Record& a, const Record& b) const {
    return a.buffer == b.buffer && (a.kind == Kind::write || b.kind == Kind::write) &&
           a.kind != Kind::unordered && b.kind != Kind::unordered;
  }
  bool MayMeet(const Record& a, const Record& b) const {
    if (source_.exact) return a.Meets(b);
    return Overlaps(layouts_.At(a.begin, a.layout), layouts_.At(b.begin, b.layout));
  }

  void Edge(TaskId producer, const Record& now) {
    ASSERT_NE(producer, 0u);
    ASSERT_LT(producer, now.task);
    after_[now.task].set(producer);
    after_[now.task] |= after_[producer];
    bool justified = claimant_[now.buffer] == producer;
    for (const Record& r : records_) {
      if (justified) break;
      justified = r.task == producer && Conflict(r, now) && MayMeet(r, now);
    }
    EXPECT_TRUE(justified) << "edge " << producer << " -> " << now.task;
  }

  void CheckOrder(TaskId task) {
    for (size_t i = records_.size(); i-- > 0 && records_[i].task == task;) {
      const Record& now = records_[i];
      TaskId claimant = claimant_[now.buffer];
      if (claimant != 0 && claimant != task) {
        EXPECT_TRUE(after_[task][claimant]) << "claim";
      }
      for (size_t j = 0; j < i; ++j) {
        const Record& r = records_[j];
        if (r.task == task || !Conflict(r, now) || !r.Meets(now)) continue;
        EXPECT_TRUE(after_[task][r.task]) << "no path " << r.task << " -> " << task;
      }
    }
  }

  void Look() {
    Region region = source_.next(random_, layouts_);
    BufferId buffer = Below(random_, static_cast<uint32_t>(claimant_.size()));
    Record now = RecordOf(0, buffer, Kind::read, region);
    TaskId writer = map_.FindWriter(buffer, region), user = map_.FindAccess(buffer, region);
    bool must_write = false, may_write = false, must_use = false, may_use = false;
    for (const Record& r : records_) {
      if (r.buffer != buffer) continue;
      bool meets = r.Meets(now), may_meet = MayMeet(r, now);
      must_use |= meets;
      may_use |= may_meet && r.task == user;
      if (r.kind == Kind::read) continue;
      must_write |= meets;
      may_write |= may_meet && r.task == writer;
    }
    EXPECT_TRUE(writer != 0 || !must_write);
    EXPECT_TRUE(writer == 0 || may_write);
    EXPECT_TRUE(user != 0 || !must_use);
    EXPECT_TRUE(user == 0 || may_use);
  }

  void CheckLive(BufferId buffer) {
    Tasks covered;
    uint64_t live = 0;
    map_.ForEachLive(buffer, [&](TaskId task) {
      covered.set(task);
      covered |= after_[task];
      ++live;
    });
    uint64_t asked = 0;
    bool few = map_.AllLive(buffer, [&](TaskId) { return ++asked > 0; });
    EXPECT_EQ(few, live <= RegionMap::kFewUsers);
    for (const Record& r : records_) {
      if (r.buffer == buffer) {
        EXPECT_TRUE(covered[r.task]) << r.task;
      }
    }
  }

  RegionMap& map_;
  Random random_;
  const Source& source_;
  Layouts layouts_;
  std::vector<Record> records_;
  std::vector<TaskId> claimant_;
  std::vector<Tasks> after_;
};

class RandomPrograms : public testing::TestWithParam<size_t> {};

// R1, R2; one map for all programs, so that nothing of an earlier one may show.
TEST_P(RandomPrograms, OrderIsWhatTheBytesDemand) {
  const Source& source = kSources[GetParam()];
  RegionMap map;
  for (uint32_t seed = 1; seed <= 100 && !HasFailure(); ++seed) {
    SCOPED_TRACE(source.name + ", seed " + std::to_string(seed));
    Checker(map, seed, source).Run(seed % 4 == 0 ? 400 : 60, 1 + seed % 3);
  }
}

INSTANTIATE_TEST_SUITE_P(Regions, RandomPrograms, testing::Range(size_t{0}, std::size(kSources)));

}  // namespace
}  // namespace precast::graph
