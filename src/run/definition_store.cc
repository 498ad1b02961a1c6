#include "run/definition_store.h"

#include "base/planted_fault.h"
#include "graph/content_hash.h"

#include <precast/error.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <iterator>
#include <utility>

namespace precast::run {

namespace {

uint64_t GuardBytes(const Variant& variant) {
  uint64_t bytes = 0;
  for (const Guard& guard : variant.guards) bytes += guard.bytes.size();
  return bytes;
}

}  // namespace

Family* DefinitionStore::Claim(std::string_view name, std::vector<const Variant*>* variants) {
  std::lock_guard lock(mutex_);
  auto found = families_.find(name);
  if (found == families_.end()) {
    auto family = std::make_unique<Family>();
    family->name = name;
    std::string_view key = family->name;
    found = families_.emplace(key, std::move(family)).first;
  }
  Family* family = found->second.get();
  variants->clear();
  variants->reserve(family->variants.size());
  ++family->claims;
  for (auto variant : family->variants) {
    ++variant->claims;
    variants_.splice(variants_.end(), variants_, variant);
    variants->push_back(&*variant);
  }
  return family;
}

Definition* DefinitionStore::Intern(std::span<const char> image, std::span<Definition* const> inner,
                                    bool* shared) {
  std::vector<uint64_t> content(image.size() / sizeof(uint64_t));
  std::memcpy(content.data(), image.data(), image.size());
  auto* header = reinterpret_cast<abi::Header*>(content.data());
  uint64_t hash = graph::ContentHash(std::as_bytes(std::span(content)));
  header->content_hash = hash;
  auto [begin, end] = definitions_.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    if (it->second->image == content &&
        std::equal(it->second->inner.begin(), it->second->inner.end(), inner.begin(),
                   inner.end())) {
      *shared = true;
      return it->second.get();
    }
  }
  *shared = false;
  auto definition = std::make_unique<Definition>();
  definition->image = std::move(content);
  definition->hash = hash;
  definition->inner.assign(inner.begin(), inner.end());
  const abi::Header& h = definition->header();
  definition->blocks = h.blocks;
  for (abi::TaskId id = abi::kFirstTask; id < abi::EndTask(&h);) {
    const abi::Task* task = abi::TaskAt(definition->image.data(), id);
    if ((task->flags & abi::kTaskGraph) != 0) definition->blocks += inner[task->kernel]->blocks;
    id += task->units;
  }
  definition->scratch_bytes =
      abi::ScratchHeapOffset(h.slots.count, h.scalars, h.tasks) + h.heap_bytes;
  Definition* added = definitions_.emplace(hash, std::move(definition))->second.get();
  for (Definition* child : added->inner) ++child->parents;
  bytes_ += added->bytes();
  return added;
}

const Variant* DefinitionStore::Add(Family* family, Variant recorded, std::span<const char> image,
                                    std::span<Definition* const> inner, bool* shared) {
  std::lock_guard lock(mutex_);
  Definition* definition = Intern(image, inner, shared);
  if (definition->log == nullptr) definition->log = std::move(recorded.log);
  for (const Variant* variant : definition->variants) {
    auto same_guard = [](const Guard& a, const Guard& b) {
      return a.tensor == b.tensor && a.offset == b.offset && a.bytes == b.bytes;
    };
    if (variant->family == family && variant->signature == recorded.signature &&
        variant->specialized == recorded.specialized &&
        std::equal(variant->guards.begin(), variant->guards.end(), recorded.guards.begin(),
                   recorded.guards.end(), same_guard)) {
      ++variant->claims;
      return variant;
    }
  }
  recorded.definition = definition;
  recorded.family = family;
  recorded.claims = 1;
  try {
    family->variants.reserve(family->variants.size() + 1);
    definition->variants.reserve(definition->variants.size() + 1);
    variants_.push_back(std::move(recorded));
  } catch (...) {
    Drop(definition);
    throw;
  }
  Variant& variant = variants_.back();
  family->variants.push_back(std::prev(variants_.end()));
  definition->variants.push_back(&variant);
  bytes_ += GuardBytes(variant);
  return &variant;
}

void DefinitionStore::Release(Family* family, std::span<const Variant* const> variants) {
  std::lock_guard lock(mutex_);
  for (const Variant* variant : variants) --variant->claims;
  --family->claims;
  DropIfUnused(family);
  TrimLocked(false);
}

void DefinitionStore::CollectMissing(Definition* definition, std::vector<Definition*>* missing) {
  if (definition->address != 0 ||
      std::find(missing->begin(), missing->end(), definition) != missing->end()) {
    return;
  }
  for (Definition* inner : definition->inner) CollectMissing(inner, missing);
  missing->push_back(definition);
}

uint64_t DefinitionStore::Upload(std::span<Definition* const> definitions,
                                 device::PinnedArena& arena) {
  std::lock_guard lock(mutex_);
  std::vector<Definition*> missing;  // inner ones first
  for (Definition* definition : definitions) CollectMissing(definition, &missing);
  if (missing.empty()) return 0;
  uint64_t bytes = 0;
  for (const Definition* definition : missing) {
    uint64_t hash = graph::ContentHash(std::as_bytes(std::span(definition->image)));
    bool changed = hash != definition->hash || hash != definition->header().content_hash;
    if (changed && !PRECAST_PLANTED("store.hash-unchecked")) {
      Fail(ErrorCode::internal,
           "a recorded graph of {} bytes changed while it was kept: its hash is {:#x}, and was "
           "{:#x}",
           definition->bytes(), hash, definition->hash);
    }
    bytes += definition->bytes();
  }
  arena.Reserve(bytes, 0);
  auto chunk = std::find_if(chunks_.begin(), chunks_.end(),
                            [](const Chunk& known) { return known.residents == 0; });
  if (chunk == chunks_.end()) chunk = chunks_.emplace(chunks_.end());
  device::Address address = 0;
  try {
    address = driver_->Allocate(bytes);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::out_of_memory || TrimLocked(true) == 0) throw;
    address = driver_->Allocate(bytes);
  }
  try {
    char* target = arena.data();
    device::Address next = address;
    for (Definition* definition : missing) {
      definition->address = next;
      std::memcpy(target, definition->image.data(), definition->bytes());
      auto* records =
          abi::At<abi::Definition>(static_cast<void*>(target), definition->header().definitions);
      for (size_t i = 0; i < definition->inner.size(); ++i) {
        records[i].address = definition->inner[i]->address;
      }
      target += definition->bytes();
      next += definition->bytes();
    }
    driver_->CopyToDevice(address, arena.data(), bytes);
  } catch (...) {
    for (Definition* definition : missing) {
      if (!PRECAST_PLANTED("store.resident-early")) definition->address = 0;
    }
    try {
      driver_->Free(address);
    } catch (const Error&) {
      // The device is lost; the copy's error says so.
    }
    throw;
  }
  *chunk = {address, bytes, static_cast<uint32_t>(missing.size())};
  for (Definition* definition : missing) {
    definition->chunk = static_cast<uint32_t>(chunk - chunks_.begin());
  }
  resident_bytes_ += bytes;
  return bytes;
}

void DefinitionStore::Evict(std::list<Variant>::iterator variant) noexcept {
  Family* family = variant->family;
  Definition* definition = variant->definition;
  std::erase(family->variants, variant);
  std::erase(definition->variants, &*variant);
  bytes_ -= GuardBytes(*variant);
  variants_.erase(variant);
  DropIfUnused(family);
  Drop(definition);
}

void DefinitionStore::Drop(Definition* definition) noexcept {
  if (definition->parents > 0 || !definition->variants.empty()) return;
  if (definition->address != 0) {
    Chunk& chunk = chunks_[definition->chunk];
    if (--chunk.residents == 0) {
      resident_bytes_ -= chunk.bytes;
      try {
        driver_->Free(chunk.address);
      } catch (const Error& error) {
        if (!failed_free_) failed_free_ = error;
      } catch (const std::exception&) {  // no memory for an Error
      }
    }
  }
  bytes_ -= definition->bytes();
  ++evicted_;
  std::vector<Definition*> inner = std::move(definition->inner);
  auto [begin, end] = definitions_.equal_range(definition->hash);
  definitions_.erase(
      std::find_if(begin, end, [=](const auto& e) { return e.second.get() == definition; }));
  for (Definition* child : inner) {
    --child->parents;
    Drop(child);
  }
}

void DefinitionStore::DropIfUnused(Family* family) noexcept {
  if (family->claims == 0 && family->variants.empty())
    families_.erase(families_.find(family->name));
}

uint64_t DefinitionStore::TrimLocked(bool all) noexcept {
  uint64_t before = resident_bytes_;
  for (auto next = variants_.begin(); next != variants_.end();) {
    if (!all && variants_.size() <= budget_.variants && bytes_ <= budget_.bytes) break;
    auto variant = next++;
    if (PRECAST_PLANTED("store.evicts-newest") && next != variants_.end()) continue;
    if (variant->claims == 0 || PRECAST_PLANTED("store.evicts-claimed")) Evict(variant);
  }
  return before - resident_bytes_;
}

uint64_t DefinitionStore::Trim(bool all) {
  std::lock_guard lock(mutex_);
  return TrimLocked(all);
}

DefinitionStore::Figures DefinitionStore::figures() const {
  std::lock_guard lock(mutex_);
  return {families_.size(), variants_.size(), definitions_.size(),
          bytes_,           resident_bytes_,  evicted_};
}

std::optional<Error> DefinitionStore::Close() {
  std::lock_guard lock(mutex_);
  std::optional<Error> first = std::exchange(failed_free_, std::nullopt);
  for (Chunk& chunk : chunks_) {
    if (chunk.residents == 0) continue;
    try {
      driver_->Free(chunk.address);
    } catch (const Error& error) {
      if (!first) first = error;
    }
    chunk.residents = 0;
  }
  families_.clear();
  variants_.clear();
  definitions_.clear();
  resident_bytes_ = bytes_ = 0;
  return first;
}

}  // namespace precast::run
