// Regions for tests: layouts made and interned by hand, and kinds of regions to draw from.
#pragma once

#include "abi/image.h"
#include "graph/overlap.h"

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <vector>

namespace precast::graph::samples {

inline constexpr uint64_t kBytes = 4096;  // of each buffer in random programs
using Bytes = std::bitset<kBytes>;

class Layouts {
 public:
  // Interns a layout; strides in elements.
  uint32_t Of(std::vector<uint32_t> shape, std::vector<uint32_t> strides, uint8_t element_bytes) {
    abi::Layout layout{};
    layout.rank = static_cast<uint8_t>(shape.size());
    layout.element_bytes = element_bytes;
    layout.elements = 1;
    uint64_t last = 0, row_major = 1;
    layout.contiguous = 1;
    for (size_t i = shape.size(); i-- > 0;) {
      layout.shape[i] = shape[i];
      layout.strides[i] = strides[i];
      layout.elements *= shape[i];
      last += uint64_t{shape[i] - 1} * strides[i];
      if (strides[i] != row_major && shape[i] > 1) layout.contiguous = 0;
      row_major *= shape[i];
    }
    layout.extent = (last + 1) * element_bytes;
    auto key = std::tuple(shape, strides, element_bytes);
    auto [it, added] = ids_.emplace(key, static_cast<uint32_t>(layouts_.size()));
    if (added) layouts_.push_back(layout);
    return it->second;
  }
  uint32_t Flat(uint32_t elements, uint8_t element_bytes = 4) {
    return Of({elements}, {1}, element_bytes);
  }
  Region At(uint64_t begin, uint32_t id) const { return {begin, id, &layouts_[id]}; }

 private:
  std::map<std::tuple<std::vector<uint32_t>, std::vector<uint32_t>, uint8_t>, uint32_t> ids_;
  std::deque<abi::Layout> layouts_ = std::deque<abi::Layout>(1);  // addresses stay
};

inline Bytes BytesOf(const Region& region) {
  Bytes bytes;
  const abi::Layout& layout = *region.layout;
  for (uint64_t e = 0; e < layout.elements; ++e) {
    uint64_t at = 0, rest = e;
    for (uint32_t i = layout.rank; i-- > 0; rest /= layout.shape[i]) {
      at += rest % layout.shape[i] * layout.strides[i];
    }
    for (uint32_t b = 0; b < layout.element_bytes; ++b) {
      bytes.set(region.begin + at * layout.element_bytes + b);
    }
  }
  return bytes;
}

using Random = std::mt19937;
inline uint32_t Below(Random& random, uint32_t n) { return static_cast<uint32_t>(random() % n); }

// Gives regions of one kind. Regions of `exact` kinds are told apart exactly.
struct Source {
  std::string name;
  bool exact;
  Region (*next)(Random& random, Layouts& layouts);
};

// A matrix of 32 rows of 30 floats in rows of 32, 12 bytes into the buffer.
inline constexpr uint32_t kPitch = 32;
inline constexpr uint64_t kBase = 12;
inline Region Tile(Layouts& layouts, uint32_t row, uint32_t column, uint32_t rows,
                   uint32_t columns) {
  return layouts.At(kBase + (row * kPitch + column) * 4,
                    layouts.Of({rows, columns}, {kPitch, 1}, 4));
}
inline Region Whole(Layouts& layouts) { return layouts.At(0, layouts.Flat(kBytes / 4)); }

inline const Source kSources[] = {
    {"blocks", true,
     [](Random& random, Layouts& layouts) {
       return layouts.At(Below(random, 64) * 64, layouts.Flat(16));
     }},
    {"ranges", true,
     [](Random& random, Layouts& layouts) {
       uint32_t n = 1 + Below(random, Below(random, 4) == 0 ? 512 : 16);
       return layouts.At(Below(random, 1024 - n + 1) * 4, layouts.Flat(n));
     }},
    {"elements", true,
     [](Random& random, Layouts& layouts) {
       return layouts.At(Below(random, 200) * 17, layouts.Flat(1, 1));
     }},
    {"tiles", true,
     [](Random& random, Layouts& layouts) {
       return Tile(layouts, Below(random, 6) * 5, Below(random, 5) * 6, 5, 6);
     }},
    {"tiles, rarely the whole", true,
     [](Random& random, Layouts& layouts) {
       if (Below(random, 16) == 0) return Whole(layouts);
       return Tile(layouts, Below(random, 6) * 5, Below(random, 5) * 6, 5, 6);
     }},
    {"tiles, rarely between cells", true,
     [](Random& random, Layouts& layouts) {
       if (Below(random, 16) == 0) return Tile(layouts, Below(random, 26), Below(random, 25), 5, 6);
       return Tile(layouts, Below(random, 6) * 5, Below(random, 5) * 6, 5, 6);
     }},
    {"tiles of two widths", true,  // of one size class
     [](Random& random, Layouts& layouts) {
       return Tile(layouts, Below(random, 6) * 5, Below(random, 5) * 6, 5, 5 + Below(random, 2));
     }},
    {"boxes", true,
     [](Random& random, Layouts& layouts) {
       uint32_t rows = 1 + Below(random, 12), columns = 1 + Below(random, 12);
       return Tile(layouts, Below(random, 31 - rows), Below(random, 31 - columns), rows, columns);
     }},
    {"panels", true,
     [](Random& random, Layouts& layouts) {
       switch (Below(random, 4)) {
         case 0:
           return Tile(layouts, Below(random, 6) * 5, 0, 5, 30);
         case 1:
           return Tile(layouts, 0, Below(random, 5) * 6, 31, 6);
         case 2:
           return Below(random, 4) == 0 ? Whole(layouts) : Tile(layouts, 0, 0, 31, 30);
         default:
           return Tile(layouts, Below(random, 6) * 5, Below(random, 5) * 6, 5, 6);
       }
     }},
    {"reshaped", true,
     [](Random& random, Layouts& layouts) {
       uint64_t begin = Below(random, 8) * 512;
       switch (Below(random, 4)) {
         case 0:
           return layouts.At(begin, layouts.Flat(128));
         case 1:
           return layouts.At(begin, layouts.Of({8, 16}, {16, 1}, 4));
         case 2:
           return layouts.At(begin, layouts.Of({16, 8}, {1, 16}, 4));  // transposed
         default:
           return layouts.At(begin, layouts.Flat(512, 1));
       }
     }},
    {"transposed", true,
     [](Random& random, Layouts& layouts) {
       Region tile = Tile(layouts, Below(random, 6) * 5, Below(random, 5) * 6, 5, 6);
       if (Below(random, 2) == 0) return tile;
       return layouts.At(tile.begin, layouts.Of({6, 5}, {1, kPitch}, 4));
     }},
    {"stepped rows", true,  // every third row
     [](Random& random, Layouts& layouts) {
       return layouts.At(kBase + (Below(random, 6) * kPitch + Below(random, 5) * 6) * 4,
                         layouts.Of({8, 6}, {3 * kPitch, 1}, 4));
     }},
    {"three axes", true,  // of 32 planes of 8 rows of 16 bytes
     [](Random& random, Layouts& layouts) {
       uint32_t a = 1 + Below(random, Below(random, 8) == 0 ? 32 : 4), b = 1 + Below(random, 4);
       uint32_t c = 1 + Below(random, 8);
       uint32_t at =
           (Below(random, 32 - a + 1) * 8 + Below(random, 8 - b + 1)) * 16 + Below(random, 16 - c);
       return layouts.At(at, layouts.Of({a, b, c}, {128, 16, 1}, 1));
     }},
    {"bricks", true,  // tiles with three axes, and planes
     [](Random& random, Layouts& layouts) {
       uint32_t at = (Below(random, 8) * 4 * 8 + Below(random, 4) * 2) * 16 + Below(random, 4) * 4;
       if (Below(random, 6) == 0) return layouts.At(at / 128 * 128, layouts.Flat(128, 1));
       return layouts.At(at, layouts.Of({4, 2, 4}, {128, 16, 1}, 1));
     }},
    {"nested", true,
     [](Random& random, Layouts& layouts) {
       uint32_t depth = Below(random, 100);
       return layouts.At(depth * 8, layouts.Flat(400 - depth * 4));
     }},
    {"strides that disagree", false,
     [](Random& random, Layouts& layouts) {
       uint32_t step = 1 + Below(random, 5), n = 1 + Below(random, 20);
       if (Below(random, 2) == 0) {
         return layouts.At(Below(random, 900) * 4, layouts.Of({n}, {step}, 4));
       }
       return layouts.At(Below(random, 300) * 4,
                         layouts.Of({1 + Below(random, 6), n}, {100 + step, step}, 4));
     }},
    {"mixed", false,
     [](Random& random, Layouts& layouts) {
       return kSources[Below(random, 16)].next(random, layouts);
     }},
};

}  // namespace precast::graph::samples
