// BodyGenerator: draws the items of one body. It draws what may not be allowed, asks the model, and
// keeps what is.
//
// Threads: as Random.
#pragma once

#include "fuzz/model.h"
#include "fuzz/plan.h"
#include "fuzz/random.h"

#include <cstdint>
#include <utility>
#include <vector>

namespace precast::fuzz {

inline constexpr uint64_t kMaxTasks = 2000;
inline constexpr uint64_t kMaxRecords = 60'000;

/// What a body submits, graphs inside included.
struct Cost {
  uint64_t tasks = 0, records = 0;
};

/// What a plan has much of, so that plans differ from each other.
struct Taste {
  explicit Taste(Random& random);
  int64_t size;  ///< items of all runs, about
  /// Percent.
  uint64_t graphs, repeats, predicates, afters, allocs, pauses, no_deps, many_blocks, aliases,
      hosts;
};

/// A plan under way.
struct Drawing {
  explicit Drawing(uint64_t seed) : random(seed), taste(random), model(plan) { plan.seed = seed; }
  Drawing(const Drawing&) = delete;
  Drawing& operator=(const Drawing&) = delete;
  /// Bodies that graphs can be made of: the first ones.
  uint32_t callees() const { return static_cast<uint32_t>(costs.size()); }

  Random random;
  Taste taste;
  Plan plan;
  Model model;
  std::vector<Cost> costs;  // of the bodies of graphs
  Cost total;               // of the runs so far
};

class BodyGenerator {
 public:
  /// Appends to `body`. The drawing's model begins the body with `frame`.
  BodyGenerator(Drawing& drawing, Model::Frame frame, Body* body)
      : drawing_(drawing), frame_(std::move(frame)), body_(*body) {}

  /// About `size` items.
  void Draw(int64_t size);
  /// Adds what a body must have; the model may still say that it cannot end like this.
  void Complete();

  const Model::Frame& frame() const { return frame_; }
  const Cost& cost() const { return cost_; }

 private:
  bool TooMuch(const Cost& more) const;
  /// Appends the item where the rules allow it.
  bool Put(Item item);
  ScalarRef DrawScalarRef(DType dtype);
  /// An argument, or a created tensor that is there.
  TensorRef DrawBase();
  TensorRef DrawTensor();
  Use DrawUse();
  void DrawOptions(Item* item);
  /// Names all tasks that what is `no_dep` conflicts with: then its order does not matter.
  void OrderNoDep(Item* item);
  Item DrawTask();
  /// A graph whose arguments are views of what there is, or created for it.
  Item DrawGraph(uint32_t callee);
  /// Submits one, or several as a loop over layers would, with the same tensors or others.
  bool PutGraphs(uint32_t callee);
  Item DrawAlloc();
  Item DrawHostAccess();

  Drawing& drawing_;
  Model::Frame frame_;
  Body& body_;
  Cost cost_;
  std::vector<TensorRef> recent_;  // that items named
};

}  // namespace precast::fuzz
