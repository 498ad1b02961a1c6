// DefinitionStore: the recorded graphs of one worker, kept for its life.
//
// Used by the binds of a worker: they claim the variants of a graph's family, add what they
// recorded, and have it uploaded.
//
// Terms. A *family* is all that was recorded under one name (key, body, params). A *variant* is one
// recording: what must be equal for it to be replayed, and its definition. A *definition* is an
// image; equal ones are one, whatever they were recorded as. It is *resident* when it is on the
// device. Variants are evicted; a definition goes with the last that needs it, a family with the
// last claim or variant.
//
// Invariants
//   D1  A claimed variant is not evicted. A definition stays while a variant has it, or a
//       definition names it.
//   D2  A definition counts as resident only after its upload has succeeded.
//   D3  What is uploaded has the hash that it had when it was added.
//   D4  Equal contents are one definition: equal hashes are followed by a comparison of all bytes.
//
// Threads: every call from any thread. Claimed variants may be read without a lock.
#pragma once

#include "abi/image.h"
#include "device/driver.h"
#include "device/pinned_arena.h"
#include "graph/build_log.h"
#include "run/graph_signature.h"

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace precast::run {

struct Variant;

/// Belongs to the store, which alone changes it.
struct Definition {
  std::vector<uint64_t> image;     ///< addresses of inner definitions are 0 here
  uint64_t hash = 0;               ///< Header::content_hash
  std::vector<Definition*> inner;  ///< by number in the image's section
  uint64_t blocks = 0;             ///< of an instance, inner ones included
  uint64_t scratch_bytes = 0;
  std::unique_ptr<const graph::BuildLog> log;  ///< null unless it was recorded while inspected

  const abi::Header& header() const { return *reinterpret_cast<const abi::Header*>(image.data()); }
  uint64_t bytes() const { return image.size() * sizeof(uint64_t); }

  // Under the store's lock.
  device::Address address = 0;  // 0: not resident
  uint32_t chunk = 0;
  uint32_t parents = 0;  // definitions that name it
  std::vector<Variant*> variants;
};

/// Bytes of a boundary tensor that a body looked at.
struct Guard {
  uint32_t tensor = 0;  ///< boundary tensor
  uint64_t offset = 0;  ///< bytes from its element 0
  std::vector<std::byte> bytes;
};

/// The value of a scalar that a body looked at.
struct Specialized {
  uint32_t scalar = 0;
  uint64_t bits = 0;
  bool operator==(const Specialized&) const = default;
};

/// Immutable once added, but for its claims.
struct Variant {
  GraphSignature signature;
  std::vector<Specialized> specialized;
  std::vector<Guard> guards;
  std::vector<uint32_t> slot_begin;  ///< see graph::GraphSpec
  Definition* definition = nullptr;
  std::unique_ptr<graph::BuildLog> log;  ///< on its way to the definition
  struct Family* family = nullptr;
  mutable uint32_t claims = 0;  // under the store's lock
};

/// Belongs to the store.
struct Family {
  std::string name;
  uint32_t claims = 0;
  std::vector<std::list<Variant>::iterator> variants;  // of DefinitionStore::variants_
};

class DefinitionStore {
 public:
  struct Budget {
    uint64_t variants = 4096;
    uint64_t bytes = uint64_t{256} << 20;  ///< of definitions and guards
    uint64_t family = 64;                  ///< variants of one, before runs warn
  };

  DefinitionStore(device::Driver* driver, Budget budget) : driver_(driver), budget_(budget) {}

  /// The family of that name, made when it is new, and its variants: all claimed.
  Family* Claim(std::string_view name, std::vector<const Variant*>* variants);

  /// Adds a recording, claimed, and gives it; when another bind was faster with an equal one, that.
  /// The image's definitions section names `inner`, which are claimed. `shared`: the content was
  /// there already, under another name or signature.
  const Variant* Add(Family* family, Variant recorded, std::span<const char> image,
                     std::span<Definition* const> inner, bool* shared);

  /// Ends a claim on a family and on the variants that came with it or were added since.
  void Release(Family* family, std::span<const Variant* const> variants);

  /// Makes definitions, and those they name, resident: at most one copy, from `arena`. Gives the
  /// bytes copied. Throws what the driver throws, and `internal` when the bytes of one have changed
  /// since it was added; nothing new is then resident.
  uint64_t Upload(std::span<Definition* const> definitions, device::PinnedArena& arena);

  /// Evicts what nobody claims: down to the budget, or all. Gives the bytes of device memory freed.
  uint64_t Trim(bool all = false);

  struct Figures {
    uint64_t families = 0, variants = 0, definitions = 0;
    uint64_t bytes = 0, resident_bytes = 0;
    uint64_t evicted = 0;  // definitions
  };
  Figures figures() const;
  const Budget& budget() const { return budget_; }

  /// Frees the device memory. Nothing is claimed. Gives the first error, that of an earlier
  /// eviction included.
  std::optional<Error> Close();

 private:
  /// What came in one upload; freed with the last of it.
  struct Chunk {
    device::Address address = 0;
    uint64_t bytes = 0;
    uint32_t residents = 0;
  };
  // All of these: mutex_ held.
  Definition* Intern(std::span<const char> image, std::span<Definition* const> inner, bool* shared);
  void CollectMissing(Definition* definition, std::vector<Definition*>* missing);
  void Evict(std::list<Variant>::iterator variant) noexcept;
  /// Unless something needs it still.
  void Drop(Definition* definition) noexcept;
  void DropIfUnused(Family* family) noexcept;
  uint64_t TrimLocked(bool all) noexcept;

  device::Driver* driver_;
  const Budget budget_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string_view, std::unique_ptr<Family>> families_;      // by Family::name
  std::unordered_multimap<uint64_t, std::unique_ptr<Definition>> definitions_;  // by hash
  std::list<Variant> variants_;  // least recently used first
  std::vector<Chunk> chunks_;
  uint64_t bytes_ = 0, resident_bytes_ = 0, evicted_ = 0;
  std::optional<Error> failed_free_;
};

}  // namespace precast::run
