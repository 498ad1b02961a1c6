// The region map against brute force: every pair of accesses of a random program is compared byte
// by byte, and edges must give exactly the order that these pairs demand.

#include "graph/region_map.h"

#include <gtest/gtest.h>

#include <bitset>
#include <deque>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace precast::graph {
namespace {

using abi::TaskId;

constexpr uint64_t kBytes = 4096;  // of each buffer in random programs
using Bytes = std::bitset<kBytes>;

class Layouts {
 public:
  // Interns a layout; strides in elements.
  uint32_t Of(std::vector<uint32_t> shape, std::vector<uint32_t> strides, uint8_t element_bytes) {
    abi::Layout layout{};
    layout.rank = static_cast<uint8_t>(shape.size());
    layout.element_bytes = element_bytes;
    layout.elements = 1;
    uint64_t last = 0, row_major = 1;
    layout.contiguous = 1;
    for (size_t i = shape.size(); i-- > 0;) {
      layout.shape[i] = shape[i];
      layout.strides[i] = strides[i];
      layout.elements *= shape[i];
      last += uint64_t{shape[i] - 1} * strides[i];
      if (strides[i] != row_major && shape[i] > 1) layout.contiguous = 0;
      row_major *= shape[i];
    }
    layout.extent = (last + 1) * element_bytes;
    auto key = std::tuple(shape, strides, element_bytes);
    auto [it, added] = ids_.emplace(key, static_cast<uint32_t>(layouts_.size()));
    if (added) layouts_.push_back(layout);
    return it->second;
  }
  uint32_t Flat(uint32_t elements, uint8_t element_bytes = 4) {
    return Of({elements}, {1}, element_bytes);
  }
  Region At(uint64_t begin, uint32_t id) const { return {begin, id, &layouts_[id]}; }

 private:
  std::map<std::tuple<std::vector<uint32_t>, std::vector<uint32_t>, uint8_t>, uint32_t> ids_;
  std::deque<abi::Layout> layouts_ = std::deque<abi::Layout>(1);  // addresses stay
};

Bytes BytesOf(const Region& region) {
  Bytes bytes;
  const abi::Layout& layout = *region.layout;
  for (uint64_t e = 0; e < layout.elements; ++e) {
    uint64_t at = 0, rest = e;
    for (uint32_t i = layout.rank; i-- > 0; rest /= layout.shape[i]) {
      at += rest % layout.shape[i] * layout.strides[i];
    }
    for (uint32_t b = 0; b < layout.element_bytes; ++b) {
      bytes.set(region.begin + at * layout.element_bytes + b);
    }
  }
  return bytes;
}

using Random = std::mt19937;
uint32_t Below(Random& random, uint32_t n) { return static_cast<uint32_t>(random() % n); }

// Gives regions of one kind. Regions of `exact` kinds are told apart exactly.
struct Source {
  std::string name;
  bool exact;
  Region (*next)(Random& random, Layouts& layouts);
};

// A matrix of 32 rows of 30 floats in rows of 32, 12 bytes into the buffer.
constexpr uint32_t kPitch = 32;
constexpr uint64_t kBase = 12;
Region Tile(Layouts& layouts, uint32_t row, uint32_t column, uint32_t rows, uint32_t columns) {
  return layouts.At(kBase + (row * kPitch + column) * 4,
                    layouts.Of({rows, columns}, {kPitch, 1}, 4));
}
Region Whole(Layouts& layouts) { return layouts.At(0, layouts.Flat(kBytes / 4)); }

const Source kSources[] = {
    {"blocks", true,
     [](Random& random, Layouts& layouts) {
       return layouts.At(Below(random, 64) * 64, layouts.Flat(16));
     }},
    {"ranges", true,
     [](Random& random, Layouts& layouts) {
       uint32_t n = 1 + Below(random, Below(random, 4) == 0 ? 512 : 16);
       return layouts.At(Below(random, 1024 - n + 1) * 4, layouts.Flat(n));
     }},
    {"elements", true,
     [](Random& random, Layouts& layouts) {
       return layouts.At(Below(random, 200) * 17, layouts.Flat(1, 1));
     }},
    {"tiles", true,
     [](Random& random, Layouts& layouts) {
       return Tile(layouts, Below(random, 6) * 5, Below(random, 5) * 6, 5, 6);
     }},
    {"tiles, rarely the whole", true,
     [](Random& random, Layouts& layouts) {
       if (Below(random, 16) == 0) return Whole(layouts);
       return Tile(layouts, Below(random, 6) * 5, Below(random, 5) * 6, 5, 6);
     }},
    {"tiles, rarely between cells", true,
     [](Random& random, Layouts& layouts) {
       if (Below(random, 16) == 0) return Tile(layouts, Below(random, 26), Below(random, 25), 5, 6);
       return Tile(layouts, Below(random, 6) * 5, Below(random, 5) * 6, 5, 6);
     }},
    {"boxes", true,
     [](Random& random, Layouts& layouts) {
       uint32_t rows = 1 + Below(random, 12), columns = 1 + Below(random, 12);
       return Tile(layouts, Below(random, 31 - rows), Below(random, 31 - columns), rows, columns);
     }},
    {"panels", true,
     [](Random& random, Layouts& layouts) {
       switch (Below(random, 4)) {
         case 0:
           return Tile(layouts, Below(random, 6) * 5, 0, 5, 30);
         case 1:
           return Tile(layouts, 0, Below(random, 5) * 6, 31, 6);
         case 2:
           return Below(random, 4) == 0 ? Whole(layouts) : Tile(layouts, 0, 0, 31, 30);
         default:
           return Tile(layouts, Below(random, 6) * 5, Below(random, 5) * 6, 5, 6);
       }
     }},
    {"reshaped", true,
     [](Random& random, Layouts& layouts) {
       uint64_t begin = Below(random, 8) * 512;
       switch (Below(random, 4)) {
         case 0:
           return layouts.At(begin, layouts.Flat(128));
         case 1:
           return layouts.At(begin, layouts.Of({8, 16}, {16, 1}, 4));
         case 2:
           return layouts.At(begin, layouts.Of({16, 8}, {1, 16}, 4));  // transposed
         default:
           return layouts.At(begin, layouts.Flat(512, 1));
       }
     }},
    {"transposed", true,
     [](Random& random, Layouts& layouts) {
       Region tile = Tile(layouts, Below(random, 6) * 5, Below(random, 5) * 6, 5, 6);
       if (Below(random, 2) == 0) return tile;
       return layouts.At(tile.begin, layouts.Of({6, 5}, {1, kPitch}, 4));
     }},
    {"stepped rows", true,  // every third row
     [](Random& random, Layouts& layouts) {
       return layouts.At(kBase + (Below(random, 6) * kPitch + Below(random, 5) * 6) * 4,
                         layouts.Of({8, 6}, {3 * kPitch, 1}, 4));
     }},
    {"three axes", true,  // of 32 planes of 8 rows of 16 bytes
     [](Random& random, Layouts& layouts) {
       uint32_t a = 1 + Below(random, Below(random, 8) == 0 ? 32 : 4), b = 1 + Below(random, 4);
       uint32_t c = 1 + Below(random, 8);
       uint32_t at =
           (Below(random, 32 - a + 1) * 8 + Below(random, 8 - b + 1)) * 16 + Below(random, 16 - c);
       return layouts.At(at, layouts.Of({a, b, c}, {128, 16, 1}, 1));
     }},
    {"bricks", true,  // tiles with three axes, and planes
     [](Random& random, Layouts& layouts) {
       uint32_t at = (Below(random, 8) * 4 * 8 + Below(random, 4) * 2) * 16 + Below(random, 4) * 4;
       if (Below(random, 6) == 0) return layouts.At(at / 128 * 128, layouts.Flat(128, 1));
       return layouts.At(at, layouts.Of({4, 2, 4}, {128, 16, 1}, 1));
     }},
    {"nested", true,
     [](Random& random, Layouts& layouts) {
       uint32_t depth = Below(random, 100);
       return layouts.At(depth * 8, layouts.Flat(400 - depth * 4));
     }},
    {"strides that disagree", false,
     [](Random& random, Layouts& layouts) {
       uint32_t step = 1 + Below(random, 5), n = 1 + Below(random, 20);
       if (Below(random, 2) == 0) {
         return layouts.At(Below(random, 900) * 4, layouts.Of({n}, {step}, 4));
       }
       return layouts.At(Below(random, 300) * 4,
                         layouts.Of({1 + Below(random, 6), n}, {100 + step, step}, 4));
     }},
    {"mixed", false,
     [](Random& random, Layouts& layouts) {
       return kSources[Below(random, 15)].next(random, layouts);
     }},
};

// Runs a random program and compares. Counts what happened, for tests of the counts.
class Checker {
 public:
  Checker(RegionMap& map, uint32_t seed, const Source& source)
      : map_(map), random_(seed), source_(source) {}

  void Run(uint32_t tasks, uint32_t buffers) {
    map_.Clear();
    for (uint32_t i = 0; i < buffers; ++i) ASSERT_EQ(map_.AddBuffer(kBytes), i);
    claimant_.assign(buffers, 0);
    written_.assign(buffers, false);
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
    if (kind == Kind::read) map_.Read(buffer, region, task, edge);
    if (kind == Kind::write) map_.Write(buffer, region, task, edge);
    if (kind == Kind::unordered) {
      map_.Unordered(buffer, region, task);
      if (claimant_[buffer] != task && claimant_[buffer] != 0) Edge(claimant_[buffer], now);
    }
    if (kind == Kind::write) written_[buffer] = true;
    EXPECT_EQ(map_.Written(buffer), written_[buffer]);
    records_.push_back(now);
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
  std::vector<bool> written_;
  std::vector<Tasks> after_;
};

class RandomPrograms : public testing::TestWithParam<size_t> {};

// R1, R2; one map for all programs, so that nothing of an earlier one may show.
TEST_P(RandomPrograms, OrderIsWhatTheBytesDemand) {
  const Source& source = kSources[GetParam()];
  RegionMap map;
  for (uint32_t seed = 1; seed <= 60 && !HasFailure(); ++seed) {
    SCOPED_TRACE(source.name + ", seed " + std::to_string(seed));
    Checker(map, seed, source).Run(seed % 4 == 0 ? 400 : 60, 1 + seed % 3);
  }
}

INSTANTIATE_TEST_SUITE_P(Regions, RandomPrograms, testing::Range(size_t{0}, std::size(kSources)));

// A map with the edges of each access.
class RegionMapTest : public testing::Test {
 protected:
  using Edges = std::vector<TaskId>;
  Edges Read(const Region& region, TaskId task, BufferId buffer = 0) {
    Edges edges;
    map_.Read(buffer, region, task, [&](TaskId producer) { edges.push_back(producer); });
    return edges;
  }
  Edges Write(const Region& region, TaskId task, BufferId buffer = 0) {
    Edges edges;
    map_.Write(buffer, region, task, [&](TaskId producer) { edges.push_back(producer); });
    return edges;
  }
  Edges Live(BufferId buffer = 0) {
    Edges live;
    map_.ForEachLive(buffer, [&](TaskId task) { live.push_back(task); });
    return live;
  }

  RegionMap map_;
  Layouts layouts_;
};

TEST_F(RegionMapTest, WholeTensors) {
  map_.AddBuffer(kBytes);
  Region whole = Whole(layouts_);
  EXPECT_EQ(map_.FindAccess(0, whole), 0u);
  EXPECT_EQ(Read(whole, 4), Edges{});
  EXPECT_EQ(map_.FindWriter(0, whole), 0u);
  EXPECT_EQ(map_.FindAccess(0, whole), 4u);
  EXPECT_EQ(Write(whole, 5), Edges{4});
  EXPECT_EQ(Write(whole, 6), Edges{5});
  EXPECT_EQ(Read(whole, 6), Edges{});  // its own
  EXPECT_EQ(Read(whole, 7), Edges{6});
  EXPECT_EQ(Read(whole, 8), Edges{6});
  EXPECT_EQ(Write(whole, 8), Edges{7});
  EXPECT_EQ(Live(), Edges{8});
}

TEST_F(RegionMapTest, ManyReadersOfOneRegion) {
  map_.AddBuffer(kBytes);
  map_.AddBuffer(kBytes);
  Region whole = Whole(layouts_), part = layouts_.At(64, layouts_.Flat(16));
  constexpr TaskId kReaders = 100'000;
  for (int round = 0; round < 2; ++round) {
    for (BufferId buffer : {0u, 1u}) {
      TaskId task = 1 + static_cast<TaskId>(round) * 200'000;
      if (buffer == 1) Read(part, task, buffer);
      Write(whole, task, buffer);
      for (TaskId i = 1; i <= kReaders; ++i) EXPECT_EQ(Read(whole, task + i, buffer), Edges{task});
      Edges edges = Write(whole, task + kReaders + 1, buffer);
      std::sort(edges.begin(), edges.end());
      Edges expected(kReaders);
      std::iota(expected.begin(), expected.end(), task + 1);
      EXPECT_EQ(edges, expected);
    }
  }
}

TEST_F(RegionMapTest, PartialWritesLeaveTheRest) {
  map_.AddBuffer(kBytes);
  Region whole = Whole(layouts_), left = layouts_.At(0, layouts_.Flat(512)),
         right = layouts_.At(2048, layouts_.Flat(512));
  Write(whole, 1);
  EXPECT_EQ(Write(left, 2), Edges{1});
  EXPECT_EQ(Read(left, 3), Edges{2});  // 1 comes before 2
  EXPECT_EQ(Read(right, 4), Edges{1});
  EXPECT_EQ(Read(whole, 5), (Edges{1, 2}));
  EXPECT_EQ(Write(whole, 6), (Edges{5, 3, 4}));
  EXPECT_EQ(Live(), Edges{6});
}

TEST_F(RegionMapTest, ReshapesAreTheSameRegion) {
  map_.AddBuffer(kBytes);
  Region flat = layouts_.At(0, layouts_.Flat(1024)),
         square = layouts_.At(0, layouts_.Of({32, 32}, {32, 1}, 4)),
         transposed = layouts_.At(0, layouts_.Of({32, 32}, {1, 32}, 4));
  EXPECT_NE(flat.layout_id, square.layout_id);
  Write(flat, 1);
  EXPECT_EQ(Read(square, 2), Edges{1});
  EXPECT_EQ(Read(transposed, 3), Edges{1});
  EXPECT_EQ(Write(transposed, 4), (Edges{2, 3}));
  EXPECT_EQ(Live(), Edges{4});
}

// Each tile waits for its neighbours above and to the left, and has no other edge.
TEST_F(RegionMapTest, WavefrontOverTiles) {
  constexpr uint32_t kTiles = 60, kEdge = 10;  // tiles a side, elements a side of a tile
  constexpr uint32_t kRow = kTiles * kEdge;
  map_.AddBuffer(uint64_t{kRow} * kRow * 4);
  uint32_t layout = layouts_.Of({kEdge, kEdge}, {kRow, 1}, 4);
  auto tile = [&](uint32_t r, uint32_t c) {
    return layouts_.At((uint64_t{r} * kEdge * kRow + c * kEdge) * 4, layout);
  };
  auto task = [&](uint32_t sweep, uint32_t r, uint32_t c) {
    return sweep * 10'000 + 1 + r * kTiles + c;
  };
  for (uint32_t sweep = 0; sweep < 3; ++sweep) {
    for (uint32_t r = 0; r < kTiles; ++r) {
      for (uint32_t c = 0; c < kTiles; ++c) {
        TaskId id = task(sweep, r, c);
        if (r > 0) {
          ASSERT_EQ(Read(tile(r - 1, c), id), Edges{task(sweep, r - 1, c)});
        }
        if (c > 0) {
          ASSERT_EQ(Read(tile(r, c - 1), id), Edges{task(sweep, r, c - 1)});
        }
        Edges expected;
        if (sweep > 0) {  // those that read it in the last sweep
          if (c + 1 < kTiles) expected.push_back(task(sweep - 1, r, c + 1));
          if (r + 1 < kTiles) expected.push_back(task(sweep - 1, r + 1, c));
          if (expected.empty()) expected.push_back(task(sweep - 1, r, c));
        }
        ASSERT_EQ(Write(tile(r, c), id), expected);
      }
    }
  }
}

// Large areas over many small regions, and over few in a large buffer.
TEST_F(RegionMapTest, LargeAreasOverSmallRegions) {
  constexpr uint64_t kHuge = uint64_t{1} << 46;
  map_.AddBuffer(kHuge);
  uint32_t block = layouts_.Flat(16);
  std::vector<uint64_t> begins;
  Random random(1);
  for (uint32_t i = 0; i < 20'000; ++i) {
    begins.push_back(i % 2 == 0 ? i * 64 : (uint64_t{random()} << 14 | 1 << 21) & ~63ull);
  }
  std::sort(begins.begin(), begins.end());
  begins.erase(std::unique(begins.begin(), begins.end()), begins.end());
  TaskId task = 0;
  for (uint64_t begin : begins) Write(layouts_.At(begin, block), ++task);
  for (uint32_t elements : {100u, 10'000u, 4'000'000u, 2'000'000'000u, 4'000'000'000u}) {
    for (int i = 0; i < 5; ++i) {
      uint64_t begin = begins[Below(random, static_cast<uint32_t>(begins.size()))] + 4;
      Edges edges = Read(layouts_.At(begin, layouts_.Flat(elements)), ++task), expected;
      for (size_t j = 0; j < begins.size(); ++j) {
        if (begins[j] + 64 > begin && begins[j] < begin + uint64_t{elements} * 4) {
          expected.push_back(static_cast<TaskId>(j + 1));
        }
      }
      std::sort(edges.begin(), edges.end());
      ASSERT_EQ(edges, expected);
    }
  }
  EXPECT_EQ(Live().size(), begins.size() + 25);
}

TEST_F(RegionMapTest, ClaimedBytesOrderEverybody) {
  map_.AddBuffer(kBytes);
  Region left = layouts_.At(0, layouts_.Flat(16)), right = layouts_.At(64, layouts_.Flat(16));
  map_.Claim(0, 7);
  EXPECT_FALSE(map_.Written(0));
  EXPECT_EQ(map_.FindAccess(0, left), 0u);
  EXPECT_EQ(Write(left, 7), Edges{});
  EXPECT_EQ(Write(right, 8), Edges{7});
  EXPECT_EQ(Read(left, 9), Edges{7});
  EXPECT_EQ(Read(right, 9), Edges{8});
}

TEST_F(RegionMapTest, UnorderedAccessesAreFoundButMakeNoEdge) {
  map_.AddBuffer(kBytes);
  Region left = layouts_.At(0, layouts_.Flat(16)), right = layouts_.At(64, layouts_.Flat(16));
  map_.Unordered(0, left, 3);
  EXPECT_FALSE(map_.Written(0));
  EXPECT_EQ(Write(left, 4), Edges{});
  EXPECT_EQ(map_.FindWriter(0, right), 0u);
  map_.Unordered(0, right, 5);
  EXPECT_EQ(map_.FindWriter(0, right), 5u);
  EXPECT_EQ(map_.FindAccess(0, right), 5u);
  EXPECT_EQ(Live(), (Edges{4, 3, 5}));
}

// Overlaps and Covers against bytes.
TEST(Overlap, IsExactWhereItSaysAndNeverMisses) {
  Random random(3);
  for (const Source& source : kSources) {
    SCOPED_TRACE(source.name);
    Layouts layouts;
    int overlaps = 0, covers = 0, covers_in_fact = 0;
    for (int i = 0; i < 20'000; ++i) {
      Region a = source.next(random, layouts), b = source.next(random, layouts);
      a = layouts.At(a.begin, a.layout_id);
      Bytes of_a = BytesOf(a), of_b = BytesOf(b);
      bool meet = (of_a & of_b).any(), cover = (of_b & ~of_a).none();
      if (source.exact) {
        EXPECT_EQ(Overlaps(a, b), meet);
      }
      EXPECT_TRUE(Overlaps(a, b) || !meet);
      EXPECT_EQ(Overlaps(a, b), Overlaps(b, a));
      EXPECT_TRUE(!Covers(a, b) || cover);
      overlaps += meet;
      covers += Covers(a, b);
      covers_in_fact += cover;
      if (testing::Test::HasFailure()) return;
    }
    EXPECT_GT(overlaps, 20);
    if (source.exact) {
      EXPECT_EQ(covers, covers_in_fact);
    }
  }
}

TEST(Divider, AgreesWithDivision) {
  Random random(5);
  for (int i = 0; i < 100'000; ++i) {
    uint64_t value = (uint64_t{random()} << 32 | random()) >> Below(random, 63) >> 1;
    uint64_t n = (uint64_t{random()} << 32 | random()) >> (1 + Below(random, 63));
    if (value == 0) value = 1;
    ASSERT_EQ(Divider::By(value).Quotient(n), n / value) << n << " / " << value;
    uint64_t multiple = n / value * value;
    ASSERT_EQ(Divider::By(value).Quotient(multiple), multiple / value);
    if (multiple > 0) {
      ASSERT_EQ(Divider::By(value).Quotient(multiple - 1), (multiple - 1) / value);
    }
  }
}

}  // namespace
}  // namespace precast::graph
