#include "scope.h"

#include <utility>

namespace tally::ptx {

namespace {

/// No range has an index of more digits.
constexpr std::size_t maxIndexDigits = 10;

bool isDigit(char c) { return c >= '0' && c <= '9'; }

/// Whether the name looks like a name of a range, `%r7`; a single declaration may have such a name.
bool looksNumbered(std::string_view name) { return name.front() == '%' && isDigit(name.back()); }

std::uint32_t hashOf(std::string_view name, bool isRange) {
  std::uint32_t hash = isRange ? 0x9e3779b9u : 2166136261u; // FNV-1a
  for (char c : name)
    hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return hash ^ (hash >> 15);
}

} // namespace

ScopeTable::ScopeTable() : slots(256) {}

std::size_t ScopeTable::probe(std::string_view name, bool isRange, std::uint32_t hash) const {
  const std::size_t mask = slots.size() - 1;
  std::size_t index = hash & mask;
  while (slots[index].used && (slots[index].hash != hash || slots[index].isRange != isRange ||
                               slots[index].name != name))
    index = (index + 1) & mask;
  return index;
}

void ScopeTable::grow() {
  std::vector<Slot> old(slots.size() * 2);
  old.swap(slots);
  for (const Slot &slot : old) {
    if (!slot.used)
      continue;
    const std::size_t index = probe(slot.name, slot.isRange, slot.hash);
    slots[index] = slot;
    for (std::int32_t b = slot.binding; b >= 0; b = bindings[b].hidden)
      bindings[b].slot = static_cast<std::uint32_t>(index);
  }
}

bool ScopeTable::declare(std::string_view name, bool isRange, RegisterId first,
                         std::uint32_t count) {
  if (usedSlots * 2 >= slots.size())
    grow();
  const std::uint32_t hash = hashOf(name, isRange);
  const std::size_t index = probe(name, isRange, hash);
  Slot &slot = slots[index];
  if (!slot.used) {
    slot = {name, hash, isRange, true, -1};
    ++usedSlots;
  }
  if (slot.binding >= 0 && bindings[slot.binding].depth == depth)
    return false;
  bindings.push_back({static_cast<std::uint32_t>(index), slot.binding, depth, first, count});
  numberedNames += !isRange && looksNumbered(name);
  slot.binding = static_cast<std::int32_t>(bindings.size() - 1);
  return true;
}

bool ScopeTable::declareRegister(std::string_view name, RegisterId id) {
  return declare(name, false, id, 1);
}

bool ScopeTable::declareRange(std::string_view prefix, RegisterId first, std::uint32_t count) {
  return declare(prefix, true, first, count);
}

bool ScopeTable::declareOther(std::string_view name) { return declare(name, false, noRegister, 1); }

void ScopeTable::close() {
  while (!bindings.empty() && bindings.back().depth == depth) {
    Slot &slot = slots[bindings.back().slot];
    slot.binding = bindings.back().hidden;
    numberedNames -= !slot.isRange && looksNumbered(slot.name);
    bindings.pop_back();
  }
  --depth;
}

const ScopeTable::Binding *ScopeTable::find(std::string_view name, bool isRange) const {
  const Slot &slot = slots[probe(name, isRange, hashOf(name, isRange))];
  return slot.binding >= 0 ? &bindings[slot.binding] : nullptr;
}

// Reads a name as ptxas does: all of its final digits are the index, leading zeros included.
const ScopeTable::Binding *ScopeTable::findInRanges(std::string_view name,
                                                    std::uint32_t &index) const {
  std::size_t firstDigit = name.size();
  while (firstDigit > 1 && isDigit(name[firstDigit - 1]))
    --firstDigit;
  if (name.size() - firstDigit > maxIndexDigits)
    return nullptr;
  std::uint64_t value = 0;
  for (char digit : name.substr(firstDigit))
    value = value * 10 + static_cast<std::uint64_t>(digit - '0');
  index = static_cast<std::uint32_t>(value);
  // `%r<2>` in an inner scope hides only two of an outer `%r<8>`.
  const Binding *range = find(name.substr(0, firstDigit), true);
  while (range && value >= range->count)
    range = range->hidden >= 0 ? &bindings[range->hidden] : nullptr;
  return range;
}

RegisterId ScopeTable::lookup(std::string_view name) const {
  const bool inRangesOnly = numberedNames == 0 && looksNumbered(name);
  const Binding *exact = inRangesOnly ? nullptr : find(name, false);
  if (isDigit(name.back())) {
    std::uint32_t index = 0;
    const Binding *range = findInRanges(name, index);
    if (range && (!exact || range->depth > exact->depth))
      return range->first + index;
  }
  return exact ? exact->first : noRegister;
}

} // namespace tally::ptx
