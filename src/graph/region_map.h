// RegionMap: the inference of order. Per buffer, which live writers and readers overlap this
// region?
//
// Used by the builder: once for each tensor argument of each task (Read, Write), and where a bind
// looks into a tensor (FindWriter, FindAccess) or bytes of the graph heap change hands
// (ForEachLive, Claim). An access is *live* until a write covers its region; what is not live is
// ordered before something that is.
//
// The first live region of a buffer stands in the buffer's own cache line, so the usual case, whole
// tensors, is a compare. All others stand in a grid (region_grid.h, which has the numbers for this
// choice). An access to exactly a live region that nobody touched through another region since its
// last write needs no search; two flags per region say so.
//
// Invariants
//   R1  For each pair of tasks whose accesses share a byte, one of them a write, there is a path of
//       edges from the earlier to the later task.
//   R2  Each edge is between two tasks with accesses that may overlap, as Overlaps() sees it, one
//       of them a write; or it comes from Claim.
//   R3  Let E and F be live regions that overlap, and a an access to F after E's last write. If a
//       writes, E has kForeignWrite; if it reads, E has one of the two flags. A region that was
//       only read has kForeignRead whenever its buffer has other live regions. So without flags,
//       E's own accesses are all that counts.
//   R4  A region may be listed several times. Its newest entry is the one found, if any is.
//   R5  Accesses to E from before E's last write are not kept: the write comes after them. Also,
//       no edge is made from an access older than a write that covers all of the region in hand.
//   R6  If E was last accessed before a write to a live region that overlaps it, E has
//       kForeignWrite. So a search under R5 may pass over E without setting its flags.
//
// An exception of `edge` or std::bad_alloc leaves a state that only Clear and the destructor
// accept.
//
// Threads: one at a time.
#pragma once

#include "abi/image.h"
#include "base/planted_fault.h"
#include "graph/buffer.h"
#include "graph/overlap.h"
#include "graph/region_grid.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace precast::graph {

class RegionMap {
 public:
  RegionMap() = default;
  RegionMap(const RegionMap&) = delete;
  RegionMap& operator=(const RegionMap&) = delete;

  /// Forgets everything, in O(1); keeps capacity.
  void Clear();
  BufferId AddBuffer(uint64_t bytes);
  size_t buffers() const { return buffers_.size(); }
  /// Callers may change what is the builder's in it. Valid until the next AddBuffer.
  Buffer& operator[](BufferId buffer) { return buffers_[buffer]; }
  const Buffer& operator[](BufferId buffer) const { return buffers_[buffer]; }
  /// The first of all buffers, one beside the other. Valid until the next AddBuffer.
  Buffer* data() { return buffers_.data(); }
  const Rare& RareOf(const Buffer& buffer) const { return rares_[buffer.rare]; }
  Rare& AddRare(Buffer& buffer);

  /// `task` reads `region`: calls edge(TaskId) for the writers that must precede it, and records
  /// it. Tasks come in ascending order of id; one task may make several accesses, and never gets an
  /// edge from itself. An edge that others imply is left out where that is cheap to see; a producer
  /// may be named twice. `edge` must not call this object. Requires: begin + extent <= bytes of the
  /// buffer < 2^63.
  template <typename Edge>
  void Read(BufferId buffer, const Region& region, abi::TaskId task, Edge&& edge);

  /// `task` writes (or reads and writes) `region`: edges from overlapping writers and readers;
  /// retires what the region covers.
  template <typename Edge>
  void Write(BufferId buffer, const Region& region, abi::TaskId task, Edge&& edge);

  /// The usual cases of Read and Write, for callers to whom each instruction counts: the first
  /// access to a buffer, and the same region again while it is the one that stands in the buffer.
  /// False, and nothing is changed, in all other cases.
  /// Producers that are 0 or `task` itself make no edge; a write also has those of a read.
  bool ReadWhole(Buffer& buffer, const Region& region, abi::TaskId task, abi::TaskId* producer);
  bool WriteWhole(Buffer& buffer, const Region& region, abi::TaskId task,
                  abi::TaskId (&producers)[2]);

  /// `task` may read and write `region` in no particular order: makes no edges now or later (but
  /// see Claim), and FindWriter, FindAccess and ForEachLive know it.
  void Unordered(BufferId buffer, const Region& region, abi::TaskId task);

  /// Whatever touches the buffer from now on comes after `task`, the first task that names the
  /// buffer, when its bytes belonged to another buffer before: `task` has the edges from that one's
  /// users, others that touch other parts of this buffer first would not. Does not count as an
  /// access. Requires: no access was recorded yet.
  void Claim(BufferId buffer, abi::TaskId task) {
    if (!PRECAST_PLANTED("heap.claim-lost")) AddRare(buffers_[buffer]).claim = task;
  }
  /// The task of Claim, 0 if none: a task with an Unordered access comes after it, too. That edge
  /// is the caller's.
  abi::TaskId Claimant(BufferId buffer) const { return RareOf(buffers_[buffer]).claim; }

  /// May these, of one buffer, share a byte?
  bool Overlap(const Region& a, const Region& b) const;

  /// Some task that writes, or may write, bytes of the region; 0 if none.
  abi::TaskId FindWriter(BufferId buffer, const Region& region) const;
  /// Some task that touches bytes of the region since they were last written; 0 if none.
  abi::TaskId FindAccess(BufferId buffer, const Region& region) const;
  /// Calls visit(TaskId) for tasks that each user of the buffer is, or precedes.
  template <typename Visit>
  void ForEachLive(BufferId buffer, Visit&& visit) const {
    for (abi::TaskId task : CollectLive(buffer, ~uint64_t{0})) visit(task);
  }
  /// Is predicate(TaskId) true for all of these? False, too, when there are more than kFewUsers: it
  /// takes constant time.
  template <typename Predicate>
  bool AllLive(BufferId buffer, Predicate&& predicate) const {
    std::span<const abi::TaskId> live = CollectLive(buffer, kFewUsers);
    return live.size() <= kFewUsers && std::all_of(live.begin(), live.end(), predicate);
  }
  static constexpr uint64_t kFewUsers = 16;

 private:
  static constexpr uint32_t kChunkReaders = 14;
  struct ReaderChunk {
    abi::TaskId reader[kChunkReaders];
    uint32_t readers;
    uint32_t older;  // or the next free one; 0: none
  };
  static_assert(sizeof(ReaderChunk) == 64);

  static Buffer NewBuffer(uint64_t bytes) {
    return {{0, LiveRegion::kNone, 0, 0, {0, 0}, 0}, bytes, 0, 0, 0, 0, Buffer::Kind::host, 0, 0};
  }
  /// Without live regions, and without a grid that once held some.
  static bool IsEmpty(const Buffer& buffer) {
    return buffer.first.key == LiveRegion::kNone && buffer.grid == 0;
  }
  /// The first access to an empty buffer: by a writer or a reader, the other is 0.
  void SetFirst(Buffer& buffer, const Region& region, abi::TaskId writer, abi::TaskId reader);
  /// The live region that is exactly this one, or one just made in the grid; null where it takes a
  /// search to know. `also`: another producer, 0 if none.
  LiveRegion* FindLive(Buffer& buffer, bool write, const Region& region, abi::TaskId* also);
  void AddReader(LiveRegion& region, abi::TaskId task);
  template <typename Edge>
  void AfterClaim(const Buffer& buffer, abi::TaskId task, Edge& edge) {
    abi::TaskId claim = RareOf(buffer).claim;
    if (claim != 0 && claim != task) edge(claim);
  }
  template <typename Edge>
  void Overwrite(const Buffer& buffer, LiveRegion& live, abi::TaskId also, abi::TaskId task,
                 Edge& edge);

  // The general cases; they give the producers, in memory that the next call uses again.
  // `live` is exactly this region, or null when a quick look did not find it.
  std::span<const abi::TaskId> ReadSlowly(Buffer& buffer, LiveRegion* live, const Region& region,
                                          abi::TaskId task);
  std::span<const abi::TaskId> WriteSlowly(Buffer& buffer, LiveRegion* live, const Region& region,
                                           abi::TaskId task);
  // Stops soon after more than `enough`.
  std::span<const abi::TaskId> CollectLive(BufferId buffer, uint64_t enough) const;

  abi::TaskId Find(const Buffer& buffer, const Region& region, bool readers) const;
  LiveRegion* FindExact(Buffer& buffer, RegionGrid::Grid* grid, RegionGrid::Spot* spot,
                        LiveRegion* live, const Region& region);
  LiveRegion& AddRegion(Buffer& buffer, bool written, RegionGrid::Spot& spot, const Region& region);
  RegionGrid::Grid* FitGrid(Buffer& buffer, const Box& box, LiveRegion** live);
  void AppendReader(LiveRegion& region, abi::TaskId task);
  void FreeChunks(LiveRegion& region);
  void CollectAccesses(const LiveRegion& region, abi::TaskId task, abi::TaskId floor) const;
  void FinishProducers(const Buffer& buffer, abi::TaskId task, abi::TaskId floor);

  std::vector<Buffer> buffers_;
  std::vector<Buffer> unordered_ = std::vector<Buffer>(1);  // accesses as reads; entry 0 is none
  std::vector<Rare> rares_ = std::vector<Rare>(1);          // entry 0 is none
  std::vector<ReaderChunk> chunks_ = std::vector<ReaderChunk>(1);  // entry 0 is none
  uint32_t free_chunk_ = 0;
  // Looking something up fills caches.
  mutable RegionGrid grids_;
  mutable BoxTable boxes_;
  mutable std::vector<abi::TaskId> producers_;
};

inline BufferId RegionMap::AddBuffer(uint64_t bytes) {
  buffers_.push_back(NewBuffer(bytes));
  return static_cast<BufferId>(buffers_.size() - 1);
}

inline bool RegionMap::Overlap(const Region& a, const Region& b) const {
  if (a.begin >= b.begin + b.layout->extent || b.begin >= a.begin + a.layout->extent) return false;
  boxes_.Learn(a);
  boxes_.Learn(b);
  return Overlaps(a.begin, boxes_[a.layout_id], b.begin, boxes_[b.layout_id]);
}

[[gnu::always_inline]] inline void RegionMap::AddReader(LiveRegion& region, abi::TaskId task) {
  if (region.reader[0] == 0) {
    if (region.writer != task) region.reader[0] = task;
  } else if (region.reader[1] == 0) {
    if (region.reader[0] != task) region.reader[1] = task;
  } else if (region.reader[1] != task) {
    if (!PRECAST_PLANTED("order.reader-lost")) AppendReader(region, region.reader[1]);
    region.reader[1] = task;
  }
}

[[gnu::always_inline]] inline void RegionMap::SetFirst(Buffer& buffer, const Region& region,
                                                       abi::TaskId writer, abi::TaskId reader) {
  boxes_.Learn(region);
  LiveRegion& live = buffer.first;
  live.begin = region.begin;
  live.key = region.layout_id;
  live.writer = writer;
  live.reader[0] = reader;
  live.reader[1] = live.chunk = 0;
}

inline LiveRegion* RegionMap::FindLive(Buffer& buffer, bool write, const Region& region,
                                       abi::TaskId* also) {
  LiveRegion& first = buffer.first;
  if (first.begin == region.begin && first.layout() == region.layout_id) return &first;
  return buffer.grid == 0 ? nullptr
                          : grids_.FindOrAdd(buffer.grid, write, first, region.begin,
                                             region.layout_id, boxes_, also);
}

[[gnu::always_inline]] inline bool RegionMap::ReadWhole(Buffer& buffer, const Region& region,
                                                        abi::TaskId task, abi::TaskId* producer) {
  LiveRegion& live = buffer.first;
  // The layout, and no foreign write.
  if (live.begin == region.begin && (live.key & ~LiveRegion::kForeignRead) == region.layout_id) {
    *producer = live.writer != 0 ? live.writer : RareOf(buffer).claim;
    if (PRECAST_PLANTED("order.raw")) *producer = 0;
    AddReader(live, task);
    return true;
  }
  if (!IsEmpty(buffer) || buffer.rare != 0) return false;
  SetFirst(buffer, region, 0, task);
  *producer = 0;
  return true;
}

template <typename Edge>
void RegionMap::Read(BufferId id, const Region& region, abi::TaskId task, Edge&& edge) {
  Buffer& buffer = buffers_[id];
  if (IsEmpty(buffer)) {
    SetFirst(buffer, region, 0, task);
    return AfterClaim(buffer, task, edge);
  }
  abi::TaskId also = 0;
  LiveRegion* live = FindLive(buffer, false, region, &also);
  if (live != nullptr && ((live->key & LiveRegion::kForeignWrite) == 0 || also != 0)) [[likely]] {
    abi::TaskId producer = live->writer != 0 ? live->writer
                           : also != 0       ? also
                                             : RareOf(buffer).claim;
    AddReader(*live, task);
    if (producer != 0 && producer != task) edge(producer);
    return;
  }
  for (abi::TaskId producer : ReadSlowly(buffer, live, region, task)) edge(producer);
}

[[gnu::always_inline]] inline bool RegionMap::WriteWhole(Buffer& buffer, const Region& region,
                                                         abi::TaskId task,
                                                         abi::TaskId (&producers)[2]) {
  LiveRegion& live = buffer.first;
  if (IsEmpty(buffer) && buffer.rare == 0) {
    SetFirst(buffer, region, task, 0);
    producers[0] = producers[1] = 0;
    return true;
  }
  if (live.begin != region.begin || live.key != region.layout_id || live.chunk != 0) return false;
  producers[1] = live.reader[1];
  producers[0] = live.reader[0] != 0 ? live.reader[0]
                 : live.writer != 0  ? live.writer
                                     : RareOf(buffer).claim;
  if (PRECAST_PLANTED("order.war") && live.reader[0] != 0) producers[0] = producers[1] = 0;
  if (PRECAST_PLANTED("order.war-newest") && live.reader[0] != 0) producers[1] = 0;
  if (PRECAST_PLANTED("order.waw") && live.reader[0] == 0) producers[0] = 0;
  live.writer = task;
  live.reader[0] = live.reader[1] = 0;
  return true;
}

/// `live` is the region itself, without flags and chunks; `also` another producer, 0 if none.
template <typename Edge>
inline void RegionMap::Overwrite(const Buffer& buffer, LiveRegion& live, abi::TaskId also,
                                 abi::TaskId task, Edge& edge) {
  abi::TaskId writer = live.writer, first = live.reader[0], newest = live.reader[1];
  live.writer = task;
  live.reader[0] = live.reader[1] = 0;
  if (first == 0) {
    abi::TaskId producer = writer != 0 ? writer : also != 0 ? also : RareOf(buffer).claim;
    if (producer != 0 && producer != task) edge(producer);
    return;
  }
  if (first != task) edge(first);
  if (newest != 0 && newest != task) edge(newest);
  if (also != 0 && also != task) edge(also);
}

template <typename Edge>
void RegionMap::Write(BufferId id, const Region& region, abi::TaskId task, Edge&& edge) {
  Buffer& buffer = buffers_[id];
  if (IsEmpty(buffer)) {
    SetFirst(buffer, region, task, 0);
    return AfterClaim(buffer, task, edge);
  }
  abi::TaskId also = 0;
  LiveRegion* live = FindLive(buffer, true, region, &also);
  if (live != nullptr && (live->key & LiveRegion::kFlags) == 0 && live->chunk == 0) [[likely]] {
    return Overwrite(buffer, *live, also, task, edge);
  }
  for (abi::TaskId producer : WriteSlowly(buffer, live, region, task)) edge(producer);
}

}  // namespace precast::graph
