#include "fuzz/model.h"

#include <map>
#include <set>

namespace precast::fuzz {

std::vector<std::pair<uint32_t, uint32_t>> RequiredOrder(const std::vector<Leaf>& leaves,
                                                         const std::vector<bool>& ran) {
  constexpr uint32_t kNone = ~uint32_t{0};
  struct Element {
    uint32_t writer = kNone;
    std::vector<uint32_t> readers;  // since then
  };
  std::map<uint32_t, std::vector<Element>> memory;  // by root
  std::vector<std::pair<uint32_t, uint32_t>> order;
  for (uint32_t id = 0; id < leaves.size(); ++id) {
    if (!ran[id]) continue;
    std::set<uint32_t> before;
    for (uint32_t named : leaves[id].after) {
      if (ran[named]) before.insert(named);
    }
    auto visit = [&](const Leaf::Access& access, auto&& with) {
      std::vector<Element>& elements = memory[access.place.root];
      access.place.ForEach([&](int64_t at) {
        if (static_cast<size_t>(at) >= elements.size()) {
          elements.resize(static_cast<size_t>(access.place.end()));
        }
        with(elements[static_cast<size_t>(at)], access.writes);
      });
    };
    for (const Leaf::Access& access : leaves[id].accesses) {
      visit(access, [&](Element& element, bool writes) {
        if (element.writer != kNone) before.insert(element.writer);
        if (writes) before.insert(element.readers.begin(), element.readers.end());
      });
    }
    for (const Leaf::Access& access : leaves[id].accesses) {
      if (access.writes) continue;
      visit(access, [&](Element& element, bool) {
        if (element.readers.empty() || element.readers.back() != id) element.readers.push_back(id);
      });
    }
    for (const Leaf::Access& access : leaves[id].accesses) {
      if (!access.writes) continue;
      visit(access, [&](Element& element, bool) { element = {id, {}}; });
    }
    before.erase(id);
    for (uint32_t first : before) order.emplace_back(first, id);
  }
  return order;
}

}  // namespace precast::fuzz
