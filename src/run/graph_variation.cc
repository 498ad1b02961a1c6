#include "run/graph_variation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <vector>

namespace precast::run {

namespace {

constexpr size_t kShown = 8;

class Differences {
 public:
  void Add(std::string difference) {
    if (std::find(found_.begin(), found_.end(), difference) == found_.end()) {
      found_.push_back(std::move(difference));
    }
  }
  std::string Text() const {
    std::string text = fmt::format("{}", fmt::join(found_.begin(), found_.begin() + Shown(), ", "));
    if (found_.size() > kShown) text += fmt::format(" and {} more", found_.size() - kShown);
    return text;
  }

 private:
  ptrdiff_t Shown() const { return static_cast<ptrdiff_t>(std::min(found_.size(), kShown)); }
  std::vector<std::string> found_;
};

/// The part of a guard in which another one of the same bytes differs.
void AddBytes(const Guard& a, const Guard& b, Differences* differences) {
  auto [first, unused] = std::mismatch(a.bytes.begin(), a.bytes.end(), b.bytes.begin());
  if (first == a.bytes.end()) return;
  auto [last, unused_too] = std::mismatch(a.bytes.rbegin(), a.bytes.rend(), b.bytes.rbegin());
  differences->Add(fmt::format(
      "bytes {} … {} of tensor {}", a.offset + static_cast<uint64_t>(first - a.bytes.begin()),
      a.offset + static_cast<uint64_t>(a.bytes.rend() - last) - 1, a.tensor));
}

void AddGuards(const Variant& a, const Variant& b, Differences* differences) {
  // Two recordings read the same until a value sends them different ways.
  for (size_t i = 0; i < std::min(a.guards.size(), b.guards.size()); ++i) {
    const Guard &in_a = a.guards[i], &in_b = b.guards[i];
    if (in_a.tensor != in_b.tensor || in_a.offset != in_b.offset) return;
    size_t common = std::min(in_a.bytes.size(), in_b.bytes.size());
    auto part = [common](const Guard& guard) {
      return Guard{guard.tensor,
                   guard.offset,
                   {guard.bytes.begin(), guard.bytes.begin() + static_cast<ptrdiff_t>(common)}};
    };
    AddBytes(part(in_a), part(in_b), differences);
  }
}

void AddScalars(const Variant& a, const Variant& b, Differences* differences) {
  for (const Specialized& s : a.specialized) {
    auto same = std::find_if(b.specialized.begin(), b.specialized.end(),
                             [&](const Specialized& other) { return other.scalar == s.scalar; });
    if (same != b.specialized.end() && same->bits != s.bits) {
      differences->Add(fmt::format("scalar {}", s.scalar));
    }
  }
}

}  // namespace

std::string DescribeVariation(std::span<const Variant* const> variants) {
  Differences differences;
  const Variant& last = *variants.back();
  for (const Variant* variant : variants) {
    for (std::string& text : variant->signature.Differences(last.signature)) {
      differences.Add(std::move(text));
    }
    AddScalars(*variant, last, &differences);
    AddGuards(*variant, last, &differences);
  }
  return differences.Text();
}

}  // namespace precast::run
