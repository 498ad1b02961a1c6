// The part of RunBuilder that is about recorded graphs: finding a recording that fits, making one.
#include "base/tensor_access.h"
#include "run/run_builder.h"

#include <algorithm>
#include <cstring>
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
  name->append(reinterpret_cast<const char*>(&number), sizeof(number));
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
  std::vector<Arg> imported;
  for (const Arg& arg : args) {
    if (arg.is_scalar() || arg.tensor().kind() == Tensor::Kind::run) [[likely]]
      continue;
    // Device tensors become tensors of this run; what is neither is refused there.
    if (imported.empty()) imported.assign(args.begin(), args.end());
    Arg& own = imported[static_cast<size_t>(&arg - args.begin())];
    if (arg.tensor().kind() == Tensor::Kind::device && outer_ == nullptr) {
      own = Arg(arg.direction(), access_.Import(arg.tensor(), false));
    } else {
      graph_.Check(arg.tensor(),
                   fmt::format("graph '{}': argument {}", NameOf(key), &arg - args.begin()));
    }
  }
  if (!imported.empty()) args = imported;

  MakeName(key, body, params, &family_name_);
  Family& family = FamilyOf(family_name_);
  size_t found = FindVariant(family, args);
  if (found == family.variants.size()) found = Record(family, key, body, args);
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
    uint32_t scalar = 0;
    for (const Arg& arg : args) {
      if (!arg.is_scalar() || scalar++ != s.scalar) continue;
      if (arg.bound() != 0) args_.scalars_[arg.bound() - 1].looked_at = true;
    }
  }
  graph::TaskSpec spec;
  std::string number;
  std::string_view name = options.name;
  if (name.empty()) name = key.is_text() ? key.text() : std::string_view(number = NameOf(key));
  SetOptions(spec, name, options.after, options.when);
  graph::GraphSpec graph{definition, variant.definition->scratch_bytes, variant.slot_begin};
  abi::TaskId id = graph_.SubmitGraph(spec, graph, args);
  ++figures_.replays;
  figures_.blocks += variant.definition->blocks;
  return Task(id, graph_.serial());
}

RunBuilder::Family& RunBuilder::FamilyOf(std::string_view name) {
  auto found = families_.find(name);
  if (found != families_.end() && found->second->claimed) [[likely]]
    return *found->second;
  std::unique_ptr<Family> made;
  if (found == families_.end()) made = std::make_unique<Family>();
  Family& family = made ? *made : *found->second;
  family.family = device_.definitions->Claim(name, &family.variants);
  family.claimed = true;
  if (made) families_.emplace(family.family->name, std::move(made));
  claimed_.push_back(&family);
  family.definitions.assign(family.variants.size(), kNoDefinition);
  family.earlier = family.variants.size();
  figures_.variants += family.variants.size();
  return family;
}

/// The variant that a submission may replay; the number of variants if there is none.
size_t RunBuilder::FindVariant(const Family& family, ArgList args) {
  size_t count = family.variants.size();
  for (size_t i = 0; i < count; ++i) {
    if (family.variants[i]->signature.Matches(args) && Holds(*family.variants[i], args)) return i;
  }
  return count;
}

/// Whether every value that the recording looked at is the same now.
bool RunBuilder::Holds(const Variant& variant, ArgList args) {
  if (!variant.specialized.empty()) {
    size_t next = 0;
    uint32_t scalar = 0;
    for (const Arg& arg : args) {
      if (!arg.is_scalar()) continue;
      if (next < variant.specialized.size() && variant.specialized[next].scalar == scalar) {
        if (variant.specialized[next++].bits != arg.bits()) return false;
      }
      ++scalar;
    }
  }
  std::vector<std::byte> now;
  for (const Guard& guard : variant.guards) {
    uint32_t tensor = 0;
    for (const Arg& arg : args) {
      if (arg.is_scalar() || tensor++ != guard.tensor) continue;
      now.resize(guard.bytes.size());
      ReadBoundary(arg.tensor(), guard.offset, DType::u8, now.data(),
                   static_cast<int64_t>(now.size()));
      if (now != guard.bytes) return false;
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

size_t RunBuilder::Record(Family& family, GraphKey key, const GraphBody& body, ArgList args) {
  std::string name = NameOf(key);
  for (const Arg& arg : args) {
    if (!arg.is_scalar()) graph_.Check(arg.tensor(), fmt::format("graph '{}'", name));
    if (!arg.is_scalar() && arg.direction() == Direction::no_dep) {
      Fail(ErrorCode::mismatch,
           "graph '{}': a tensor is 'no_dep' ('in', 'out', 'inout' and scalars are allowed)", name);
    }
  }
  if (depth_ >= kMaxDepth) {
    Fail(ErrorCode::invalid_argument,
         "graph '{}' stands in {} others, one in the next (at most {})", name, depth_, kMaxDepth);
  }
  if (body_ == nullptr) body_.reset(new RunBuilder(device_, this));
  GraphSignature signature(args);
  struct Recording {
    RunBuilder& outer;
    explicit Recording(RunBuilder& builder) : outer(builder) { outer.recording_ = true; }
    ~Recording() {
      outer.recording_ = false;
      outer.body_->EndGraphs();
      outer.body_->access_.Release();
    }
  } recording(*this);
  RunBuilder& inner = *body_;
  bool shared = false;
  try {
    inner.BeginBody(name, signature, args);
    inner.Orchestrate([&](Orchestrator& o, const Args& a) { body.call(body.context, o, a); });
    inner.CheckBody(signature);
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("graph '{}': {}", name, error.message()),
                error.location());
  }

  std::vector<abi::Slot> slots(inner.graph_.slots());
  slots[0] = {0, inner.graph_.heap().peak_bytes()};
  Variant variant{.signature = signature, .guards = std::move(inner.guards_)};
  for (size_t i = 0; i < signature.slots().size(); ++i) {
    slots[i + 1] = {0, signature.slots()[i].bytes};
    variant.slot_begin.push_back(signature.slots()[i].first_tensor);
  }
  for (uint32_t i = 0; i < inner.args_.scalars_.size(); ++i) {
    const Args::Scalar& scalar = inner.args_.scalars_[i];
    if (scalar.looked_at) variant.specialized.push_back({i, scalar.bits});
  }
  uint64_t bytes = inner.graph_.SealDefinition(slots, static_cast<uint32_t>(signature.scalars()));
  const Variant* added =
      device_.definitions->Add(family.family, std::move(variant), {inner.body_image_.data, bytes},
                               inner.definitions_, &shared);
  family.variants.push_back(added);
  family.definitions.push_back(kNoDefinition);
  ++figures_.recorded;
  ++figures_.variants;
  figures_.recorded += inner.figures_.recorded;
  figures_.shared += (shared ? 1 : 0) + inner.figures_.shared;
  if (family.variants.size() == kManyVariants + 1) {
    warnings_.push_back(fmt::format(
        "graph '{}' has more than {} variants: {} scalars and {} ranges of bytes of the newest are "
        "part of its signature, besides shapes",
        name, kManyVariants, added->specialized.size(), added->guards.size()));
  }
  return family.variants.size() - 1;
}

void RunBuilder::BeginBody(std::string_view name, const GraphSignature& signature, ArgList args) {
  graph_name_ = name;
  depth_ = outer_->depth_ + 1;
  signature_ = &signature;
  program_ = outer_->program_;
  fatal_.reset();
  figures_ = {};
  guards_.clear();
  body_image_.grow = [this](graph::ImageMemory& self, uint64_t bytes, uint64_t) {
    body_memory_.resize(std::max<size_t>(bytes / sizeof(uint64_t) + 1, body_memory_.size() * 2));
    self.data = reinterpret_cast<char*>(body_memory_.data());
    self.capacity = body_memory_.size() * sizeof(uint64_t);
  };
  uint32_t serial = device_.next_serial->fetch_add(1, std::memory_order_relaxed);
  graph_.Begin(&body_image_, serial, outer_->graph_.heap().budget());
  access_.Begin(HostViewPolicy::copy);
  access_.set_read_outer(
      [this](uint32_t buffer, uint64_t offset, DType dtype, void* values, int64_t count) {
        ReadOuter(buffer, offset, dtype, values, count);
      });

  // A slot is one buffer. It is empty at first if nothing in it is read.
  std::vector<bool> empty(signature.slots().size(), true);
  size_t tensor = 0;
  for (const Arg& arg : args) {
    if (arg.is_scalar()) continue;
    if (arg.direction() != Direction::out) empty[signature.place(tensor).slot] = false;
    ++tensor;
  }
  for (size_t i = 0; i < signature.slots().size(); ++i) {
    graph_.AddBuffer(graph::Buffer::Kind::boundary, graph_.AddSlot(), 0, signature.slots()[i].bytes,
                     empty[i]);
  }
  boundary_.clear();
  args_.tensors_.clear();
  args_.scalars_.clear();
  for (const Arg& arg : args) {
    if (arg.is_scalar()) {
      args_.scalars_.push_back(
          {arg.bits(), arg.dtype(), false, static_cast<uint32_t>(args_.scalars_.size() + 1)});
      continue;
    }
    const GraphSignature::Place& place = signature.place(boundary_.size());
    args_.tensors_.push_back(graph_.MakeTensor(arg.tensor(), place.slot, place.offset,
                                               arg.direction() == Direction::in));
    boundary_.push_back(arg.tensor());
  }
}

/// After the body has returned.
void RunBuilder::CheckBody(const GraphSignature& signature) const {
  for (uint32_t slot = 0; slot < signature.slots().size(); ++slot) {
    const graph::Buffer& buffer = graph_.buffer(slot);
    if (!buffer.is(graph::Buffer::kHasGaps)) continue;
    uint32_t tensor = signature.slots()[slot].first_tensor;
    Fail(ErrorCode::mismatch,
         "its body does not write all of tensor {} ({}), which is 'out'; declare it 'inout' if the "
         "rest is to stay",
         tensor, boundary_[tensor].ToString());
  }
}

/// get_tensor_data in a body: the value now, which the recording is for from here on.
void RunBuilder::ReadOuter(uint32_t buffer, uint64_t offset, DType dtype, void* values,
                           int64_t count) {
  uint64_t bytes = static_cast<uint64_t>(count) * SizeOf(dtype);
  for (uint32_t t = 0; t < boundary_.size(); ++t) {
    const GraphSignature::Place& place = signature_->place(t);
    if (place.slot != buffer || offset < place.offset ||
        offset + bytes > place.offset + boundary_[t].extent_bytes()) {
      continue;
    }
    uint64_t inside = offset - place.offset;
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
  Fail(ErrorCode::internal, "bytes {} … {} of slot {} are of no boundary tensor", offset,
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

void RunBuilder::EndGraphs() {
  for (Family* family : claimed_) {
    device_.definitions->Release(family->variants);
    family->variants.clear();
    family->claimed = false;
  }
  claimed_.clear();
  definitions_.clear();
}

}  // namespace precast::detail
