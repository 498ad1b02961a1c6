#include "fuzz/shrinker.h"

#include "fuzz/model.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace precast::fuzz {

namespace {

constexpr std::chrono::seconds kShrinkTime{60};  // then what there is has to do

class Shrinker {
 public:
  Shrinker(Plan plan, const std::function<bool(Plan*)>& fails)
      : plan_(std::move(plan)), fails_(fails) {}

  Plan Run() {
    do {
      changed_ = false;
      Take([](Plan& plan) -> std::vector<Step>& { return plan.steps; });
      for (size_t body = plan_.bodies.size(); body-- > 0;) {
        Take([body](Plan& plan) -> std::vector<Item>& { return plan.bodies[body].items; });
        for (size_t i = 0; i < plan_.bodies[body].items.size(); ++i) ShrinkItem(body, i);
      }
      for (size_t i = 0; i < plan_.steps.size(); ++i) ShrinkStep(i);
      ShrinkSettings();
    } while (changed_);
    DropUnused();
    return std::move(plan_);
  }

 private:
  /// Keeps a change if the plan still keeps the rules and fails.
  template <typename Change>
  bool Try(Change&& change) {
    Plan smaller = plan_;
    change(smaller);
    if (CheckPlan(smaller) != nullptr || !fails_(&smaller)) return false;
    plan_ = std::move(smaller);
    changed_ = true;
    return true;
  }

  /// Takes elements out of a list, at first many at a time.
  template <typename List>
  void Take(List&& list) {
    for (size_t piece = std::max<size_t>(list(plan_).size() / 2, 1);; piece /= 2) {
      for (size_t end = list(plan_).size(); end > 0;) {
        size_t begin = end > piece ? end - piece : 0;
        Try([&](Plan& plan) {
          auto& values = list(plan);
          values.erase(values.begin() + static_cast<std::ptrdiff_t>(begin),
                       values.begin() + static_cast<std::ptrdiff_t>(end));
          Mend(plan);
        });
        end = begin;
      }
      if (piece <= 1) return;
    }
  }

  /// Items do not name tasks that are gone.
  static void Mend(Plan& plan) {
    for (Body& body : plan.bodies) {
      std::vector<Id> there;
      for (Item& item : body.items) {
        std::erase_if(item.after, [&](Id id) {
          return std::find(there.begin(), there.end(), id) == there.end();
        });
        there.push_back(item.id);
      }
    }
  }

  template <typename Change>  // change(Item&)
  void TryItem(size_t body, size_t i, Change&& change) {
    Try([&](Plan& plan) { change(plan.bodies[body].items[i]); });
  }

  void ShrinkItem(size_t body, size_t i) {
    auto item = [&]() -> const Item& { return plan_.bodies[body].items[i]; };
    if (item().when) TryItem(body, i, [](Item& x) { x.when.reset(); });
    if (item().condition) TryItem(body, i, [](Item& x) { x.condition.reset(); });
    if (item().pause_us != 0) TryItem(body, i, [](Item& x) { x.pause_us = 0; });
    if (item().param != 0) TryItem(body, i, [](Item& x) { x.param = 0; });
    if (item().blocks > 2) TryItem(body, i, [](Item& x) { x.blocks = 2; });
    if (item().blocks > 1) TryItem(body, i, [](Item& x) { x.blocks = 1; });
    for (size_t n = item().after.size(); n-- > 0;) {
      TryItem(body, i, [n](Item& x) { x.after.erase(x.after.begin() + static_cast<int>(n)); });
    }
    if (item().kind == Item::Kind::alloc && !item().fill) {  // then nobody has to write it
      TryItem(body, i, [](Item& x) { x.fill = 0; });
    }
    if (item().kind == Item::Kind::task) {
      if (item().form != Item::Form::vector && item().form != Item::Form::order_only) {
        TryItem(body, i, [](Item& x) { x.form = Item::Form::vector; });
      }
      if (!item().scalars.empty()) TryItem(body, i, [](Item& x) { x.scalars.clear(); });
      for (size_t n = item().uses.size(); n-- > 0;) {
        TryItem(body, i, [n](Item& x) { x.uses.erase(x.uses.begin() + static_cast<int>(n)); });
      }
    }
    if (item().kind != Item::Kind::task && item().kind != Item::Kind::get) return;
    for (size_t n = 0; n < item().uses.size(); ++n) {
      for (size_t step = item().uses[n].tensor.steps.size(); step-- > 0;) {
        TryItem(body, i, [n, step](Item& x) {
          auto& steps = x.uses[n].tensor.steps;
          steps.erase(steps.begin() + static_cast<int>(step));
        });
      }
    }
  }

  void ShrinkStep(size_t i) {
    if (plan_.steps[i].in_flight) Try([&](Plan& plan) { plan.steps[i].in_flight = false; });
    if (plan_.steps[i].replayable) Try([&](Plan& plan) { plan.steps[i].replayable = false; });
  }

  void ShrinkSettings() {
    const Settings usual;
    auto set = [&](auto Settings::*field) {
      if (plan_.settings.*field == usual.*field) return;
      Try([&](Plan& plan) { plan.settings.*field = usual.*field; });
    };
    set(&Settings::heap);
    set(&Settings::host_views);
    set(&Settings::host_view_budget);
    set(&Settings::definition_budget);
    set(&Settings::max_definitions);
    set(&Settings::upload);
    set(&Settings::verify_replays);
    set(&Settings::kernel_timeout);
  }

  /// Bodies that nothing calls any more lose their items: they would only be read.
  void DropUnused() {
    std::vector<bool> used(plan_.bodies.size());
    for (const Step& step : plan_.steps) {
      if (step.kind == Step::Kind::run) used[step.body] = true;
    }
    for (size_t i = plan_.bodies.size(); i-- > 0;) {
      if (!used[i]) plan_.bodies[i] = {};
      for (const Item& item : plan_.bodies[i].items) {
        if (item.kind == Item::Kind::graph) used[item.body] = true;
      }
    }
  }

  Plan plan_;
  const std::function<bool(Plan*)>& fails_;
  bool changed_ = false;
};

}  // namespace

Plan Shrink(Plan plan, const std::function<bool(Plan*)>& fails) {
  return Shrinker(std::move(plan), fails).Run();
}

Failure Shrink(Plan plan, Difference difference, const Options& options) {
  Options one = options;
  one.platforms = {difference.way.platform};
  one.threads = {difference.way.threads};
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + kShrinkTime;
  auto fails = [&](Plan* candidate) {
    constexpr int kTries = 5;
    for (int i = 0; i < kTries && Clock::now() < end; ++i) {
      if (std::optional<Difference> found = Check(candidate, one)) {
        difference = std::move(*found);
        return true;
      }
    }
    return false;
  };
  Failure failure{.seed = plan.seed};
  failure.plan = Shrink(std::move(plan), fails);
  failure.difference = std::move(difference);
  return failure;
}

}  // namespace precast::fuzz
