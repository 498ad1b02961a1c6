#include "fuzz/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace precast::fuzz {

uint32_t KernelsOf(Item::Form form) {
  switch (form) {
    case Item::Form::vector:
    case Item::Form::cube:
      return 1;
    case Item::Form::mixed2:
      return 2;
    case Item::Form::mixed3:
      return 3;
    case Item::Form::order_only:
      break;
  }
  return 0;
}

uint64_t RecordsOf(const Item& task) { return uint64_t{task.blocks} * KernelsOf(task.form); }

RecordLayout::RecordLayout(const Plan& plan) {
  for (const Body& body : plan.bodies) {
    BodyRecords records;
    for (const Item& item : body.items) {
      records.items.push_back(records.size);
      if (item.kind == Item::Kind::task) records.size += RecordsOf(item);
      if (item.kind == Item::Kind::graph) records.size += bodies_[item.body].size;
    }
    bodies_.push_back(std::move(records));
  }
}

uint64_t CountTasks(const Plan& plan) {
  std::vector<uint64_t> tasks;
  for (const Body& body : plan.bodies) {
    uint64_t count = 0;
    for (const Item& item : body.items) {
      if (item.kind == Item::Kind::task) ++count;
      if (item.kind == Item::Kind::alloc && item.fill) ++count;
      if (item.kind == Item::Kind::graph) count += tasks[item.body];
    }
    tasks.push_back(count);
  }
  uint64_t count = 0;
  for (const Step& step : plan.steps) {
    if (step.kind == Step::Kind::run) count += tasks[step.body];
  }
  return count;
}

// Text.

namespace {

std::string TextOf(const TensorRef& ref) {
  std::string text =
      fmt::format("{}{}", std::string_view("atb")[static_cast<size_t>(ref.base)], ref.index);
  for (const ViewStep& step : ref.steps) {
    constexpr std::string_view kNames[] = {"view", "slice", "select", "transpose", "reshape"};
    text += fmt::format(".{}({})", kNames[static_cast<size_t>(step.kind)],
                        fmt::join(step.numbers, ", "));
  }
  return text;
}

std::string TextOf(const ScalarRef& scalar) {
  switch (scalar.source) {
    case ScalarRef::Source::constant:
      return fmt::format("{} {:#x}", Name(scalar.dtype), scalar.bits);
    case ScalarRef::Source::bound:
      return fmt::format("bound s{}", scalar.index);
    case ScalarRef::Source::value:
      break;
  }
  return fmt::format("value s{}", scalar.index);
}

std::string ArgumentsOf(const Item& item) {
  std::vector<std::string> parts;
  for (const Use& use : item.uses) {
    parts.push_back(fmt::format("{}{}{} {}", Name(use.direction), use.stores ? " stored" : "",
                                use.own ? " by part" : "", TextOf(use.tensor)));
  }
  for (const ScalarRef& scalar : item.scalars) parts.push_back(TextOf(scalar));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string OptionsOf(const Item& item) {
  std::string text;
  if (item.blocks != 1) text += fmt::format(" blocks {}", item.blocks);
  if (item.pause_us != 0) text += fmt::format(" pause {} us", item.pause_us);
  if (!item.after.empty()) text += fmt::format(" after {}", fmt::join(item.after, ", "));
  if (item.when) {
    constexpr std::string_view kSigns[] = {"==", "!=", "<", "<=", ">", ">="};
    text += fmt::format(" when {} {} {}", TextOf(item.when->element),
                        kSigns[static_cast<size_t>(item.when->compare)], item.when->constant);
  }
  if (item.condition) {
    text += fmt::format(" if get {} is {}", item.condition->first,
                        item.condition->second ? "odd" : "even");
  }
  return text;
}

std::string TextOf(const Item& item) {
  constexpr std::string_view kForms[] = {"vector", "cube", "mixed 1+1", "mixed 1+2", "dependency"};
  switch (item.kind) {
    case Item::Kind::task:
      return fmt::format("{}: {} task({}){}", item.id, kForms[static_cast<size_t>(item.form)],
                         ArgumentsOf(item), OptionsOf(item));
    case Item::Kind::graph:
      return fmt::format("{}: graph of body {} param {} ({}){}", item.id, item.body, item.param,
                         ArgumentsOf(item), OptionsOf(item));
    case Item::Kind::alloc:
      return fmt::format("t{} = alloc {}{}{}", item.id, Name(item.dtype), item.shape.ToString(),
                         item.fill ? fmt::format(" filled with {}", *item.fill) : "");
    case Item::Kind::scope_begin:
      return "scope begins";
    case Item::Kind::scope_end:
      return "scope ends";
    case Item::Kind::get:
      return fmt::format("{}: get {}", item.id, TextOf(item.uses[0].tensor));
    case Item::Kind::set:
      break;
  }
  return fmt::format("{}: set {}", item.id, TextOf(item.uses[0].tensor));
}

std::string TextOf(const Step& step) {
  constexpr std::string_view kNames[] = {"", "wait", "write", "fill", "read", "renew"};
  if (step.kind == Step::Kind::wait) return "wait";
  if (step.kind != Step::Kind::run) {
    return fmt::format("{} b{}", kNames[static_cast<size_t>(step.kind)], step.buffer);
  }
  std::vector<std::string> parts;
  for (const TensorRef& tensor : step.tensors) parts.push_back(TextOf(tensor));
  for (uint64_t bits : step.scalars) parts.push_back(fmt::format("{:#x}", bits));
  return fmt::format("{}{} body {} ({})", step.in_flight ? "submit" : "run",
                     step.replayable ? " replayable" : "", step.body, fmt::join(parts, ", "));
}

}  // namespace

std::string ToString(const Plan& plan) {
  const Settings& s = plan.settings;
  constexpr std::string_view kViews[] = {"cache", "rebuild", "copy"};
  std::string text = fmt::format(
      "heap {}, host views {} within {}, definitions {} within {}{}{}{}\n", s.heap,
      kViews[static_cast<size_t>(s.host_views)], s.host_view_budget, s.max_definitions,
      s.definition_budget, s.upload == UploadMode::one ? "" : ", one upload per submission",
      s.verify_replays ? ", replays verified" : "", s.kernel_timeout ? ", kernel timeout" : "");
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    const Buffer& buffer = plan.buffers[i];
    text += fmt::format("b{}: {}{} on the {}\n", i, Name(buffer.dtype), buffer.shape.ToString(),
                        buffer.device ? "device" : "host");
  }
  for (size_t i = 0; i < plan.bodies.size(); ++i) {
    const Body& body = plan.bodies[i];
    std::vector<std::string> parts;
    for (const Parameter& p : body.tensors) {
      parts.push_back(fmt::format("{} {}{}", Name(p.direction), Name(p.dtype), p.shape.ToString()));
    }
    for (DType dtype : body.scalars) parts.push_back(std::string(Name(dtype)));
    text += fmt::format("body {} ({})\n", i, fmt::join(parts, ", "));
    for (const Item& item : body.items) text += fmt::format("  {}\n", TextOf(item));
  }
  for (const Step& step : plan.steps) text += TextOf(step) + "\n";
  return text;
}

}  // namespace precast::fuzz
