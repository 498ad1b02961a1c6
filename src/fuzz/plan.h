// Plan: a random program as plain data. The generator draws it, the model says whether it keeps the
// rules and what must come before what, the execution runs it through the public API, the shrinker
// takes pieces out of it.
//
// A plan is a list of steps of the host: runs, and what happens to memory between them. A run calls
// a *body*, a list of items: tasks, recorded graphs (each with a body of its own, earlier in the
// list of bodies), created tensors, scopes, reads and writes of the host. Items refer to each other
// by id, so that one can be taken out without renumbering the others.
//
// Threads: values.
#pragma once

#include <precast/orchestrator.h>
#include <precast/worker.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace precast::fuzz {

/// Names an item, unique in its plan.
using Id = uint32_t;

/// One step from a tensor to a view of it. `numbers` are what the call of Tensor takes: box:
/// begins, then extents; slice: axis, begin, end, step; select: axis, index; transpose: two axes;
/// reshape: extents.
struct ViewStep {
  enum class Kind : uint8_t { box, slice, select, transpose, reshape };
  Kind kind = Kind::box;
  std::vector<int64_t> numbers;
  bool operator==(const ViewStep&) const = default;
};

/// A view of an argument (by number), of a created tensor (by the id of its item), or, in the
/// arguments of a run, of a buffer of the plan (by number).
struct TensorRef {
  enum class Base : uint8_t { argument, created, buffer };
  Base base = Base::argument;
  uint32_t index = 0;
  std::vector<ViewStep> steps;
  bool operator==(const TensorRef&) const = default;
};

/// A tensor of a task or of a graph.
struct Use {
  Direction direction = Direction::in;
  TensorRef tensor;
  bool own = false;     ///< each block reads only the part that it would write
  bool stores = false;  ///< a `no_dep` that is written
};

/// A scalar of a task or of a graph: a number, or a scalar of the body that it stands in.
struct ScalarRef {
  enum class Source : uint8_t {
    constant,
    bound,  ///< by bound_scalar
    value,  ///< by value(): the recording is for it
  };
  Source source = Source::constant;
  DType dtype = DType::u64;
  uint64_t bits = 0;   ///< of a constant
  uint32_t index = 0;  ///< of the body's scalar
};

struct When {
  TensorRef element;
  Compare compare = Compare::not_equal;
  int64_t constant = 0;
};

struct Item {
  enum class Kind : uint8_t { task, graph, alloc, scope_begin, scope_end, get, set };
  enum class Form : uint8_t {
    vector,
    cube,
    mixed2,
    mixed3,
    order_only,  ///< kNoKernel
  };

  Kind kind = Kind::task;
  Id id = 0;
  /// Submitted only if the bit that item `first`, a get, found is `second`.
  std::optional<std::pair<Id, bool>> condition = {};

  // Of tasks and graphs.
  std::vector<Use> uses = {};  ///< of a get and a set: the one tensor
  std::vector<ScalarRef> scalars = {};
  std::vector<Id> after = {};
  std::optional<When> when = {};

  // Of tasks.
  Form form = Form::vector;
  uint32_t blocks = 1;
  uint32_t pause_us = 0;  ///< how long each block waits before it reads
  uint64_t salt = 0;      ///< makes what it writes its own; of a set: the values

  // Of graphs.
  uint32_t body = 0;
  uint64_t param = 0;

  // Of created tensors.
  Shape shape = {};
  DType dtype = DType::none;
  std::optional<double> fill = {};
};

/// A tensor on the boundary of a body. Strides are those of what is passed.
struct Parameter {
  Direction direction = Direction::in;
  DType dtype = DType::u64;
  Shape shape;
};

struct Body {
  std::vector<Parameter> tensors;
  std::vector<DType> scalars;
  std::vector<Item> items;
};

/// Host memory, or child memory.
struct Buffer {
  bool device = false;
  DType dtype = DType::u64;
  Shape shape;
  uint64_t salt = 0;  ///< of its first bytes
};

struct Step {
  enum class Kind : uint8_t {
    run,
    wait,   ///< for all runs in flight
    write,  ///< new bytes for a buffer: copy_to, or a store to host memory
    fill,   ///< memset of a buffer in child memory
    read,   ///< copy_from; the bytes are part of the result
    renew,  ///< frees a buffer in child memory and makes it again
  };
  Kind kind = Kind::run;

  // Of runs.
  uint32_t body = 0;
  std::vector<TensorRef> tensors = {};
  std::vector<uint64_t> scalars = {};  ///< bits
  bool in_flight = false;              ///< submitted; the next step does not wait for it
  bool replayable = false;             ///< the run of a replayable program

  // Of the others.
  uint32_t buffer = 0;
  uint64_t salt = 0;
};

/// How its workers are made and its runs run, on every platform.
struct Settings {
  Bytes heap = Bytes{64} << 20;
  HostViewPolicy host_views = HostViewPolicy::cache;
  Bytes host_view_budget = Bytes{1} << 30;
  Bytes definition_budget = Bytes{256} << 20;
  uint64_t max_definitions = 4096;
  UploadMode upload = UploadMode::one;
  bool verify_replays = false;
  bool kernel_timeout = false;  ///< kernels run on the worker's own threads
};

struct Plan {
  uint64_t seed = 0;  ///< that it was drawn from
  Settings settings;
  std::vector<Buffer> buffers;
  std::vector<Body> bodies;
  std::vector<Step> steps;
  Id next_id = 1;
};

inline bool Writes(Direction direction) {
  return direction == Direction::out || direction == Direction::inout;
}
inline bool Writes(const Use& use) {
  return Writes(use.direction) || (use.direction == Direction::no_dep && use.stores);
}
inline bool Reads(const Use& use) {
  return use.direction == Direction::in || use.direction == Direction::inout ||
         (use.direction == Direction::no_dep && !use.stores);
}
/// Whether a predicate or a condition may keep an item from running.
inline bool MaySkip(const Item& item) { return item.when || item.condition; }

/// What a block of a task leaves a record for: blocks times kernels; 0 if nothing runs.
uint64_t RecordsOf(const Item& task);
/// How many kernels a form has.
uint32_t KernelsOf(Item::Form form);

/// Where the records of each item lie: in a body, items have theirs one behind the other.
class RecordLayout {
 public:
  explicit RecordLayout(const Plan& plan);
  uint64_t OfBody(uint32_t body) const { return bodies_[body].size; }
  /// From the first record of the body.
  uint64_t OfItem(uint32_t body, size_t item) const { return bodies_[body].items[item]; }

 private:
  struct BodyRecords {
    uint64_t size = 0;
    std::vector<uint64_t> items;
  };
  std::vector<BodyRecords> bodies_;
};

/// Tasks that the plan submits, those in graphs once for each submission.
uint64_t CountTasks(const Plan& plan);

/// The plan for a reader: what the orchestrations do, line by line.
std::string ToString(const Plan& plan);

}  // namespace precast::fuzz
