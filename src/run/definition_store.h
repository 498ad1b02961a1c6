// DefinitionStore: the recorded graphs of one worker, kept for its life.
//
// Used by the binds of a worker: they claim the variants of a graph's family, add what they
// recorded, and have it uploaded.
//
// Terms. A *family* is all that was recorded under one name (key, body, params); it stays when its
// variants are gone. A *variant* is one recording: what must be equal for it to be replayed, and
// its definition; it goes with that. A *definition* is an image; equal ones are one, whatever they
// were recorded as. It is *resident* when it is on the device.
//
// Invariants
//   D1  A definition that is claimed, or named by one that is there, is not evicted.
//   D2  A definition counts as resident only after its upload has succeeded.
//   D3  Equal contents are one definition: equal hashes are followed by a comparison of all bytes.
//
// Threads: every call from any thread. Claimed variants may be read without a lock.
#pragma once

#include "abi/image.h"
#include "device/driver.h"
#include "device/pinned_arena.h"
#include "graph/build_log.h"
#include "run/graph_signature.h"

#include <cstdint>
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
  uint32_t claims = 0;
  uint32_t parents = 0;  // definitions that name it
  uint64_t last_used = 0;
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

/// Immutable once added.
struct Variant {
  GraphSignature signature;
  std::vector<Specialized> specialized;
  std::vector<Guard> guards;
  std::vector<uint32_t> slot_begin;  ///< see graph::GraphSpec
  Definition* definition = nullptr;
  std::unique_ptr<graph::BuildLog> log;  ///< on its way to the definition
  struct Family* family = nullptr;
};

struct Family {
  std::string name;
  std::vector<std::unique_ptr<Variant>> variants;
};

class DefinitionStore {
 public:
  struct Budget {
    uint64_t definitions = 4096;
    uint64_t bytes = uint64_t{256} << 20;
  };

  DefinitionStore(device::Driver* driver, Budget budget) : driver_(driver), budget_(budget) {}

  /// The family of that name, made when it is new, and its variants, all claimed.
  Family* Claim(std::string_view name, std::vector<const Variant*>* variants);

  /// Adds a recording, claimed, and gives it; when another bind was faster with an equal one, that.
  /// The image's definitions section names `inner`, which are claimed. `shared`: the content was
  /// there already, under another name or signature.
  const Variant* Add(Family* family, Variant recorded, std::span<const char> image,
                     std::span<Definition* const> inner, bool* shared);

  void Release(std::span<const Variant* const> variants);

  /// Makes definitions, and those they name, resident: at most one copy, from `arena`. Gives the
  /// bytes copied. Throws what the driver throws; nothing new is then resident.
  uint64_t Upload(std::span<Definition* const> definitions, device::PinnedArena& arena);

  /// Evicts what nobody claims: down to the budget, or all. Gives the bytes of device memory freed.
  uint64_t Trim(bool all = false);

  struct Figures {
    uint64_t definitions = 0, bytes = 0, resident_bytes = 0, evicted = 0;
  };
  Figures figures() const;

  /// Frees the device memory. Nothing is claimed. Gives the first error.
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
  void Evict(Definition* definition);
  Definition* LeastRecentlyUsed();
  uint64_t TrimLocked(bool all);

  device::Driver* driver_;
  const Budget budget_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string_view, std::unique_ptr<Family>> families_;      // by Family::name
  std::unordered_multimap<uint64_t, std::unique_ptr<Definition>> definitions_;  // by hash
  std::vector<Chunk> chunks_;
  uint64_t clock_ = 0, bytes_ = 0, resident_bytes_ = 0, evicted_ = 0;
};

}  // namespace precast::run
