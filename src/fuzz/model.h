// Model: what a plan means, without running it: which plans keep the rules of the API, and which
// tasks must have ended before which others start.
//
// The generator asks for each item whether it may stand where it wants to put it, the shrinker
// whether what is left is still a program, the fuzzer for the order that every execution must keep.
// Nothing here comes from src/graph: memory is a bit for each element, and order is found by going
// through the elements that each task touches.
//
// Where the API allows more than is easy to say, the model is stricter: it wants every element that
// is read to be defined, and graphs to define all of their `out` by pieces that do not overlap.
//
// Threads: one at a time.
#pragma once

#include "fuzz/place.h"
#include "fuzz/plan.h"

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace precast::fuzz {

/// A task with its memory, as the device sees it. Without records it only orders others.
struct Leaf {
  uint64_t record = 0;  ///< first of its records
  uint64_t records = 0;
  Id item = 0;
  bool certain = true;     ///< no predicate, and no condition, can skip it or a graph around it
  bool predicate = false;  ///< only the look at a graph's predicate, which all inside comes after
  struct Access {
    Place place;
    bool reads, writes;
  };
  std::vector<Access> accesses;
  std::vector<uint32_t> after;  ///< leaves that it names
};

class Model {
 public:
  /// Null when all is well, else what is wrong: a text that lives forever.
  using Problem = const char*;

  /// `plan` must outlive the model. `leaves`, if given, gets all leaves in program order, and the
  /// plan is complete; else it may grow.
  explicit Model(const Plan& plan, std::vector<Leaf>* leaves = nullptr);

  /// What the items so far left, in one body under way.
  struct Frame {
    std::vector<Place> arguments;
    std::vector<Parameter> parameters;
    std::vector<DType> scalars;
    bool is_run = false;       // the body of a run
    bool is_recorded = false;  // a graph, or a replayable run
    uint32_t depth = 0;
    uint64_t record = 0;  // of the first item of the body

    std::map<Id, Place> created;
    std::vector<std::vector<Id>> scopes;  // created tensors that die with each open one
    std::set<Id> gets;
    std::map<Id, std::pair<uint32_t, uint32_t>> tasks;  // first and last leaf
    struct Access {
      Place place;
      bool writes, no_dep;
      Id item;
    };
    std::vector<Access> accesses;
    std::vector<int64_t> written;  // of each argument that is 'out': elements
    uint64_t submitted = 0;        // items that certainly submit a task
  };

  /// A body as if called with memory of its own: for the generator, which makes bodies before it
  /// knows who calls them.
  Frame BeginBody(const Body& body);
  /// The body of a run step. Then `Add` for each item, then `End`.
  Problem BeginRun(const Step& step, Frame* frame);
  /// Changes nothing when there is a problem. `record` counts from the frame's first; only leaves
  /// know it.
  Problem Add(Frame* frame, const Item& item, uint64_t record = 0);
  Problem End(const Frame& frame);
  /// Ends the run of `step`, if that is the step.
  void EndRun(const Step& step);

  /// A whole step, runs included.
  Problem Do(const Step& step);

  std::optional<Place> Find(const Frame& frame, const TensorRef& ref) const;
  bool IsDefined(const Place& place) const;
  static constexpr uint32_t kMaxDepth = 3;  // of graphs in graphs

 private:
  struct Root {
    bool created = false;
    std::vector<bool> defined;  // empty once its run has ended
  };
  struct Stretch {  // elements that tasks of the run touch
    uint32_t root;
    int64_t begin, end;
    bool writes;  // or may: `no_dep`
  };

  uint32_t AddRoot(int64_t elements, bool created, bool defined);
  void Define(const Place& place, bool defined);
  Problem BeginArguments(Frame* frame);
  Problem AddTask(Frame* frame, const Item& item, uint64_t record);
  Problem AddGraph(Frame* frame, const Item& item, uint64_t record);
  Problem CheckUses(const Frame& frame, const Item& item, std::vector<Place>* places);
  Problem CheckPairs(const Item& item, const std::vector<Place>& places) const;
  Problem CheckNoDep(const Frame& frame, const Item& item, const std::vector<Place>& places) const;
  void Note(Frame* frame, const Item& item, const std::vector<Place>& places);
  void NoteLeaves(const Frame& frame, const Item& item, uint32_t first);
  Problem AddHostAccess(Frame* frame, const Item& item);

  const Plan* plan_;
  std::vector<Leaf>* leaves_;
  std::optional<RecordLayout> layout_;  // where there are leaves
  std::vector<Root> roots_;             // one for each buffer, then those of the run
  std::vector<Stretch> stretches_;
  std::set<uint32_t> busy_;            // host buffers that runs in flight write
  std::set<uint32_t> pinned_;          // buffers in child memory that runs in flight use
  std::vector<uint32_t> run_buffers_;  // of the run under way, by argument
  uint64_t records_ = 0;
  uint32_t expanding_ = 0;  // graphs around what is being added
};

/// Null when the plan keeps the rules. `leaves` as above.
Model::Problem CheckPlan(const Plan& plan, std::vector<Leaf>* leaves = nullptr);

/// Pairs (before, after) of leaves: the first must have ended before the second starts. With what
/// follows from them these are all that conflict, or that `after` names. `ran` says of each leaf
/// whether it ran; what did not orders nothing.
std::vector<std::pair<uint32_t, uint32_t>> RequiredOrder(const std::vector<Leaf>& leaves,
                                                         const std::vector<bool>& ran);

}  // namespace precast::fuzz
