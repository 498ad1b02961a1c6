// The part of RunBuilder that is about recorded graphs: finding a recording that fits, making one.
#include "base/planted_fault.h"
#include "base/tensor_access.h"
#include "run/graph_variation.h"
#include "run/run_builder.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

namespace precast::detail {

using graph::Builder;
using run::GraphSignature;
using run::Guard;
using run::Variant;

namespace {

/// The name of a family: key, body and parameters, so that no two share one.
void MakeName(GraphKey key, const GraphBody& body, std::string_view params, std::string* name) {
  name->clear();
  uint64_t number = key.is_text() ? key.text().size() : key.number();
  name->push_back(key.is_text() ? 't' : 'n');
  size_t kept = PRECAST_PLANTED("graph.key-truncated") ? sizeof(uint32_t) : sizeof(number);
  name->append(reinterpret_cast<const char*>(&number), kept);
  name->append(reinterpret_cast<const char*>(body.identity), sizeof(body.identity));
  name->append(key.text());
  name->append(params);
}

std::string NameOf(GraphKey key) {
  return key.is_text() ? std::string(key.text()) : fmt::format("#{}", key.number());
}

/// A contiguous run tensor of `count` elements at byte `offset` of the buffer of `like`.
Tensor Range(const Tensor& like, uint64_t offset, DType dtype, int64_t count) {
  Tensor shape = TensorAccess::Make(Tensor::Kind::run, Shape{count}, dtype, 0, 0, 0);
  return TensorAccess::Rebase(shape, Tensor::Kind::run, offset, TensorAccess::Buffer(like),
                              TensorAccess::Generation(like), TensorAccess::Owner(like));
}

}  // namespace

// Submitting.

Task RunBuilder::SubmitGraph(GraphKey key, const GraphBody& body, std::string_view params,
                             ArgList args, const GraphOptions& options) {
  CheckOpen();
  device::HostTraceSpan span(trace_, device::HostTrace::Kind::submit, "submit_graph");
  Family& family = FamilyOf(key, body, params);
  graph::TaskSpec spec;
  spec.is_graph = true;
  spec.key = family.name;
  spec.name = options.name;
  if (options.after.size() > 0 || options.when.get() != nullptr) [[unlikely]] {
    SetOptions(spec, options.name, options.after, options.when);
  }
  // What does not match at once is looked at closely.
  std::vector<Arg> own;
  const graph::Arguments* arguments = graph_.LookAtGraph(spec, args);
  if (arguments == nullptr) [[unlikely]] {
    own = ImportForGraph(key, args);
    args = own;
    arguments = &graph_.PrepareGraph(spec, args);
  }
  size_t found = FindVariant(family, args, *arguments);
  if (found == family.variants.size()) [[unlikely]] {
    found = Record(family, key, body, args);
  } else if (verify_replays_) [[unlikely]] {
    Verify(*family.variants[found], key, body, args);
  }
  const Variant& variant = *family.variants[found];
  uint32_t& definition = family.definitions[found];
  if (definition == kNoDefinition) {
    auto known = std::find(definitions_.begin(), definitions_.end(), variant.definition);
    definition = static_cast<uint32_t>(known - definitions_.begin());
    if (known == definitions_.end()) {
      if (found < family.earlier) ++figures_.reused;
      graph_.AddDefinition(variant.definition->hash);
      definitions_.push_back(variant.definition);
    }
  }
  // Values that the recording is for are values that a recording around it is for, too.
  for (const run::Specialized& s : variant.specialized) {
    uint32_t bound = arguments->scalars[s.scalar]->bound();
    if (bound != 0 && !PRECAST_PLANTED("graph.inner-scalar-frozen")) {
      args_.scalars_[bound - 1].looked_at = true;
    }
  }
  if (trace_ != nullptr) [[unlikely]]
    span.set_name(spec.name.empty() ? NameOf(key) : std::string(spec.name));
  graph::GraphSpec graph{definition, variant.definition->scratch_bytes, variant.slot_begin};
  abi::TaskId id = graph_.SubmitGraph(spec, graph);
  ++figures_.replays;
  figures_.blocks += variant.definition->blocks;
  return Task(id, graph_.serial());
}

/// The arguments as tensors of this run, with known layouts.
std::vector<Arg> RunBuilder::ImportForGraph(GraphKey key, ArgList args) {
  std::vector<Arg> own(args.begin(), args.end());
  for (size_t i = 0; i < own.size(); ++i) {
    const Arg& arg = args[i];
    if (arg.is_scalar()) continue;
    if (arg.tensor().kind() == Tensor::Kind::device && outer_ == nullptr) {
      own[i] = Arg(arg.direction(), access_.Import(arg.tensor(), false));
    } else {
      if (!graph_.IsUsable(arg.tensor())) {
        graph_.Check(arg.tensor(), fmt::format("graph '{}': argument {}", NameOf(key), i));
      }
      graph_.Intern(arg.tensor());  // known in what the caller holds, too
    }
    graph_.Intern(own[i].tensor());
  }
  return own;
}

RunBuilder::Family& RunBuilder::FamilyOf(GraphKey key, const GraphBody& body,
                                         std::string_view params) {
  // Most often it is that of the last submission.
  if (last_family_ != nullptr && last_identity_[0] == body.identity[0] &&
      last_identity_[1] == body.identity[1] && last_key_.is_text() == key.is_text() &&
      last_key_.number() == key.number() && last_text_ == key.text() && last_params_ == params)
      [[likely]] {
    return *last_family_;
  }
  last_family_ = nullptr;
  std::copy_n(body.identity, 2, last_identity_);
  last_key_ = key;
  last_text_ = key.text();
  last_params_ = params;
  MakeName(key, body, params, &family_name_);
  auto found = families_.find(family_name_);
  if (found != families_.end() && found->second->claimed) {
    return *(last_family_ = found->second.get());
  }
  std::unique_ptr<Family> made;
  if (found == families_.end()) {
    made = std::make_unique<Family>();
    made->key = family_name_;
  }
  Family& family = made ? *made : *found->second;
  claimed_.reserve(claimed_.size() + 1);
  run::Family* recorded = device_.definitions->Claim(family_name_, &claiming_);
  try {
    family.family = recorded;
    family.variants = claiming_;
    family.definitions.assign(claiming_.size(), kNoDefinition);
    for (std::vector<uint32_t>& layouts : family.layouts) layouts.clear();
    family.layouts.resize(claiming_.size());
    family.earlier = claiming_.size();
    if (made) families_.emplace(family.key, std::move(made));
  } catch (...) {
    device_.definitions->Release(recorded, claiming_);
    throw;
  }
  family.name = graph_.InternName(key.is_text() ? key.text() : std::string_view(NameOf(key)));
  family.claimed = true;
  claimed_.push_back(&family);
  figures_.variants += family.variants.size();
  return *(last_family_ = &family);
}

/// The variant that a submission may replay; the number of variants if there is none.
size_t RunBuilder::FindVariant(Family& family, ArgList args, const graph::Arguments& arguments) {
  size_t count = family.variants.size();
  for (size_t i = 0; i < count; ++i) {
    const Variant& variant = *family.variants[i];
    if (variant.signature.Matches(arguments, graph_.layouts(), &family.layouts[i]) &&
        Holds(variant, args, arguments)) {
      return i;
    }
  }
  return count;
}

/// Whether every value that the recording looked at is the same now.
bool RunBuilder::Holds(const Variant& variant, ArgList args, const graph::Arguments& arguments) {
  for (const run::Specialized& s : variant.specialized) {
    if (PRECAST_PLANTED("graph.scalar-frozen")) continue;
    if (arguments.scalars[s.scalar]->bits() != s.bits) return false;
  }
  std::vector<std::byte> now;
  for (const Guard& guard : variant.guards) {
    uint32_t tensor = 0;
    for (const Arg& arg : args) {
      if (arg.is_scalar() || tensor++ != guard.tensor) continue;
      now.resize(guard.bytes.size());
      ReadBoundary(arg.tensor(), guard.offset, DType::u8, now.data(),
                   static_cast<int64_t>(now.size()));
      if (now != guard.bytes && !PRECAST_PLANTED("graph.guard-skipped")) return false;
    }
  }
  return true;
}

/// Reads bytes behind the first element of a tensor of this builder, as get_tensor_data would.
void RunBuilder::ReadBoundary(const Tensor& tensor, uint64_t offset, DType dtype, void* values,
                              int64_t count) {
  Tensor range = Range(tensor, TensorAccess::Offset(tensor) + offset, dtype, count);
  access_.Get(range, {}, dtype, values, count);
}

// Recording.

/// Calls the body with a builder of its own; use(signature, definition) while that holds the
/// result.
template <typename Use>
void RunBuilder::WithRecording(GraphKey key, const GraphBody& body, ArgList args, Use&& use) {
  std::string name = NameOf(key);
  for (const Arg& arg : args) {
    if (!arg.is_scalar() && arg.direction() == Direction::no_dep) {
      Fail(ErrorCode::mismatch,
           "graph '{}': a tensor is 'no_dep' ('in', 'out', 'inout' and scalars are allowed)", name);
    }
  }
  for (const Arg& out : args) {
    if (out.is_scalar() || out.direction() != Direction::out) continue;
    for (const Arg& other : args) {
      if (&other == &out || other.is_scalar() || !graph_.Overlap(out.tensor(), other.tensor())) {
        continue;
      }
      Fail(ErrorCode::mismatch,
           "graph '{}': {}, which is 'out', shares bytes with {}; declare it 'inout'", name,
           out.tensor().ToString(), other.tensor().ToString());
    }
  }
  if (depth_ >= kMaxDepth) {
    Fail(ErrorCode::invalid_argument,
         "graph '{}' stands in {} others, one in the next (at most {} allowed)", name, depth_,
         kMaxDepth);
  }
  if (body_ == nullptr) body_.reset(new RunBuilder(device_, this));
  device::HostTraceSpan span(trace_, device::HostTrace::Kind::record, name);
  GraphSignature signature(args);
  struct Recording {
    RunBuilder& outer;
    const uint32_t serial;
    explicit Recording(RunBuilder& builder) : outer(builder), serial(builder.args_.serial_) {
      outer.recording_ = true;
      outer.args_.serial_ = 0;  // nobody's: what a body looked at there would not be noticed
    }
    ~Recording() {
      outer.recording_ = false;
      outer.args_.serial_ = serial;
      outer.body_->EndGraphs();
      outer.body_->access_.Release();
    }
  } recording(*this);
  RunBuilder& inner = *body_;
  try {
    inner.BeginBody(name, signature, args);
    inner.Orchestrate([&](Orchestrator& o, const Args& a) { body.call(body.context, o, a); });
    inner.CheckBody();
  } catch (const Error& error) {
    std::string graph = fmt::format("graph '{}': ", name);
    if (error.message().starts_with(graph)) graph.clear();  // one that recurs
    Error named(error.code(), graph + error.message(), error.location());
    if (inner.fatal_ && !fatal_) fatal_ = named;  // catching it does not undo it
    throw named;
  }
  std::vector<abi::Slot> slots(inner.graph_.slots());
  slots[0] = {0, inner.graph_.heap().peak_bytes()};
  for (size_t i = 0; i < signature.slots().size(); ++i) {
    slots[i + 1] = {0, signature.slots()[i].bytes};
  }
  uint64_t bytes = inner.graph_.SealDefinition(slots, static_cast<uint32_t>(signature.scalars()));
  std::span<const char> definition(inner.body_image_.data, bytes);
#ifdef PRECAST_VALIDATE
  inner.CheckImage(definition, graph::ImageKind::definition);
#endif
  use(signature, definition);
}

size_t RunBuilder::Record(Family& family, GraphKey key, const GraphBody& body, ArgList args) {
  WithRecording(key, body, args,
                [&](const GraphSignature& signature, std::span<const char> definition) {
                  Variant variant{.signature = signature,
                                  .guards = std::move(body_->guards_),
                                  .log = std::move(body_->log_)};
                  for (const GraphSignature::Slot& slot : signature.slots()) {
                    variant.slot_begin.push_back(slot.first_tensor);
                  }
                  for (uint32_t i = 0; i < body_->args_.scalars_.size(); ++i) {
                    const Args::Scalar& scalar = body_->args_.scalars_[i];
                    if (scalar.looked_at) variant.specialized.push_back({i, scalar.bits});
                  }
                  family.variants.reserve(family.variants.size() + 1);
                  family.definitions.reserve(family.variants.size() + 1);
                  family.layouts.reserve(family.variants.size() + 1);
                  bool shared = false;
                  family.variants.push_back(device_.definitions->Add(
                      family.family, std::move(variant), definition, body_->definitions_, &shared));
                  figures_.recorded += 1 + body_->figures_.recorded;
                  figures_.shared += (shared ? 1 : 0) + body_->figures_.shared;
                });
  family.definitions.push_back(kNoDefinition);
  family.layouts.emplace_back();
  ++figures_.variants;
  // Once a run, with the first that is too many.
  uint64_t limit = device_.definitions->budget().family;
  if (family.variants.size() == std::max<uint64_t>(limit, family.earlier) + 1) {
    RunBuilder* run = this;
    while (run->outer_ != nullptr) run = run->outer_;
    run->warnings_.push_back(fmt::format(
        "graph '{}' has {} variants (variant_limit is {}), which differ in {}", NameOf(key),
        family.variants.size(), limit, run::DescribeVariation(family.variants)));
  }
  return family.variants.size() - 1;
}

/// Records again what is about to be replayed: the result must be the same.
void RunBuilder::Verify(const Variant& variant, GraphKey key, const GraphBody& body, ArgList args) {
  WithRecording(key, body, args, [&](const GraphSignature&, std::span<const char> definition) {
    const run::Definition& known = *variant.definition;
    auto* header = reinterpret_cast<abi::Header*>(body_->body_image_.data);
    header->content_hash = known.hash;
    if (definition.size() == known.bytes() && body_->definitions_ == known.inner &&
        std::memcmp(definition.data(), known.image.data(), definition.size()) == 0) {
      return;
    }
    Fail(
        ErrorCode::mismatch,
        "graph '{}' gave {} tasks and {} edges when it was recorded, and another graph of {} and "
        "{} "
        "for the same arguments now: its body depends on something that is neither an argument nor "
        "a parameter",
        NameOf(key), known.header().tasks, known.header().edges, header->tasks, header->edges);
  });
}

void RunBuilder::OrchestrateReplayable(const Program& program, ArgList args) {
  GraphBody body{{&kAddressOf<Program>, &program},
                 [](const void* context, Orchestrator& o, const Args& a) {
                   static_cast<const Program*>(context)->orchestration(o, a);
                 },
                 &program};
  auto submit = [&](Orchestrator&, const Args& own) {
    std::vector<Arg>& list = whole_boundary_;
    list.clear();
    size_t tensor = 0, scalar = 0;
    for (const Arg& arg : args) {
      if (arg.is_scalar()) {
        list.push_back(
            Arg::bound_scalar(0, own.scalars_[scalar].bits, own.scalars_[scalar].dtype, 0));
        ++scalar;
      } else {
        list.emplace_back(arg.direction(), own.tensor(tensor++));
      }
    }
    SubmitGraph(program.name, body, {}, list, {});
  };
  Orchestrate(std::ref(submit));  // so that it is not copied to the heap
}

void RunBuilder::WarmUp() {
  body_.reset(new RunBuilder(device_, this));
  body_->WarmUpGraph(&body_->body_image_);
  WarmUpGraph(&body_->body_image_);
}

/// Tasks as those of a recorded layer.
void RunBuilder::WarmUpGraph(graph::ImageMemory* image) {
  constexpr int kTasks = 512;
  graph_.Begin(image, 0, Bytes{1} << 30);
  uint32_t scope = graph_.OpenScope();
  graph::TaskSpec spec;
  Tensor first = graph_.Alloc({1}, DType::f32), before = first;
  graph_.Submit(spec, {out(first)});
  for (int i = 1; i < kTasks; ++i) {
    Tensor result = graph_.Alloc({1}, DType::f32);
    graph_.Submit(spec, {in(first), in(before), out(result), i});
    before = result;
  }
  graph_.CloseScope(scope);
  graph_.SealDefinition(std::vector<abi::Slot>(1), 0);
}

void RunBuilder::BeginBody(std::string_view name, const GraphSignature& signature, ArgList args) {
  graph_name_ = name;
  depth_ = outer_->depth_ + 1;
  program_ = outer_->program_;
  trace_ = outer_->trace_;
  verify_replays_ = outer_->verify_replays_;
  fatal_.reset();
  figures_ = {};
  guards_.clear();
  Inspect(outer_->log_ != nullptr);
  uint32_t serial = device_.next_serial->fetch_add(1, std::memory_order_relaxed);
  graph_.Begin(&body_image_, serial, outer_->graph_.heap().budget());
  args_.serial_ = serial;
  access_.Begin(HostViewPolicy::copy);
  access_.set_read_outer(
      [this](uint32_t buffer, uint64_t offset, DType dtype, void* values, int64_t count) {
        ReadOuter(buffer, offset, dtype, values, count);
      });

  // What a slot holds is one buffer, but for `out` tensors: each has its own, empty at first.
  constexpr uint32_t kNone = ~uint32_t{0};
  std::vector<uint32_t> buffers(signature.slots().size(), kNone);
  for (size_t i = 0; i < buffers.size(); ++i) graph_.AddSlot();
  auto add = [&](uint32_t slot, uint64_t base, uint64_t bytes, bool empty) {
    return graph_.AddBuffer(graph::Buffer::Kind::boundary, slot + 1, base, bytes, empty);
  };
  boundary_.clear();
  args_.tensors_.clear();
  args_.scalars_.clear();
  for (const Arg& arg : args) {
    if (arg.is_scalar()) {
      args_.scalars_.push_back(
          {arg.bits(), arg.dtype(), false, static_cast<uint32_t>(args_.scalars_.size() + 1)});
      continue;
    }
    const Tensor& tensor = arg.tensor();
    const auto [slot, offset] = signature.place(boundary_.size());
    if (arg.direction() == Direction::out) {
      uint64_t extent = tensor.extent_bytes();
      uint32_t buffer = add(slot, offset, extent, true);
      graph_.SetUnused(buffer,
                       extent - static_cast<uint64_t>(tensor.size()) * SizeOf(tensor.dtype()));
      args_.tensors_.push_back(graph_.MakeTensor(tensor, buffer, 0, false));
    } else {
      uint32_t& buffer = buffers[slot];
      if (buffer == kNone) buffer = add(slot, 0, signature.slots()[slot].bytes, false);
      args_.tensors_.push_back(
          graph_.MakeTensor(tensor, buffer, offset, arg.direction() == Direction::in));
    }
    graph_.Intern(args_.tensors_.back());
    boundary_.push_back(tensor);
  }
}

/// After the body has returned.
void RunBuilder::CheckBody() const {
  for (size_t i = 0; i < args_.tensors_.size(); ++i) {
    const graph::Buffer& buffer = graph_.buffer(TensorAccess::Buffer(args_.tensors_[i]));
    if (!buffer.is(graph::Buffer::kHasGaps)) continue;
    Fail(ErrorCode::mismatch,
         "its body does not write all of tensor {} ({}), which is 'out'; declare it 'inout' if the "
         "rest is to stay",
         i, boundary_[i].ToString());
  }
}

/// get_tensor_data in a body: the value now, which the recording is for from here on.
void RunBuilder::ReadOuter(uint32_t buffer, uint64_t offset, DType dtype, void* values,
                           int64_t count) {
  uint64_t bytes = static_cast<uint64_t>(count) * SizeOf(dtype);
  for (uint32_t t = 0; t < boundary_.size(); ++t) {
    uint64_t begin = TensorAccess::Offset(args_.tensors_[t]);
    if (TensorAccess::Buffer(args_.tensors_[t]) != buffer || offset < begin ||
        offset + bytes > begin + boundary_[t].extent_bytes()) {
      continue;
    }
    uint64_t inside = offset - begin;
    outer_->ReadBoundary(boundary_[t], inside, dtype, values, count);
    const std::byte* read = static_cast<const std::byte*>(values);
    // Ranges that continue the last one are one guard; what it covers needs none.
    if (!guards_.empty() && guards_.back().tensor == t) {
      Guard& last = guards_.back();
      uint64_t end = last.offset + last.bytes.size();
      if (inside >= last.offset && inside + bytes <= end) return;
      if (inside == end) {
        last.bytes.insert(last.bytes.end(), read, read + bytes);
        return;
      }
    }
    guards_.push_back({t, inside, {read, read + bytes}});
    return;
  }
  Fail(ErrorCode::internal, "bytes {} … {} of buffer {} are of no boundary tensor", offset,
       offset + bytes - 1, buffer);
}

// The end.

uint64_t RunBuilder::UploadDefinitions(device::PinnedArena& arena) {
  if (definitions_.empty()) return 0;
  uint64_t bytes = device_.definitions->Upload(definitions_, arena);
  for (uint32_t i = 0; i < definitions_.size(); ++i) {
    graph_.SetDefinitionAddress(i, definitions_[i]->address);
  }
  return bytes;
}

void RunBuilder::CheckImage(std::span<const char> image, graph::ImageKind kind) const {
  std::vector<const abi::Header*> headers;
  for (const run::Definition* definition : definitions_) headers.push_back(&definition->header());
  graph::Validate(std::as_bytes(image), {.kind = kind, .definitions = headers});
}

void RunBuilder::EndGraphs() {
  last_family_ = nullptr;
  for (Family* family : claimed_) {
    device_.definitions->Release(family->family, family->variants);
    family->variants.clear();
    family->claimed = false;
  }
  claimed_.clear();
  if (families_.size() > kKeptFamilies) families_.clear();
  definitions_.clear();
}

}  // namespace precast::detail
