#include "planning/headroom.h"

#include <algorithm>

namespace tally::runtime {

namespace {

std::array<std::uint32_t, 4> fieldsOf(const Footprint &of) {
  return {of.threads, of.registers, of.sharedBytes, of.blocks};
}

Footprint footprintOf(const std::array<std::uint32_t, 4> &fields) {
  return {fields[0], fields[1], fields[2], fields[3]};
}

std::uint32_t sumOf(std::uint32_t a, std::uint32_t b) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(std::uint64_t{a} + b, UINT32_MAX));
}

} // namespace

Footprint Headroom::now() const {
  if (!seen || unknown)
    return most;
  std::uint64_t times = std::max(streams.load(), 1u);
  std::array<std::uint32_t, 4> limit = fieldsOf(most);
  for (std::size_t i = 0; i < limit.size(); ++i)
    limit[i] =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(limit[i], needs[i].load() * times));
  return footprintOf(limit);
}

void Headroom::raise(const Footprint &need) {
  bool more = !seen.load();
  std::array<std::uint32_t, 4> wanted = fieldsOf(need);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    std::uint32_t known = needs[i].load();
    while (known < wanted[i] && !needs[i].compare_exchange_weak(known, wanted[i])) {
    }
    more |= known < wanted[i];
  }
  if (!more)
    return;
  seen = true;
  changes.fetch_add(1, std::memory_order_release);
}

Headroom::Asked Headroom::ask(const FunctionAttributes &function, const LaunchShape &shape,
                              bool together) const {
  Asked asked;
  asked.need = needOf(device, function, shape);
  asked.fits = most.holds(together ? asked.need : runtime::footprintOf(function, shape));
  return asked;
}

bool Headroom::see(const FunctionAttributes &function, const LaunchShape &shape, bool together) {
  return see(ask(function, shape, together));
}

bool Headroom::see(const Asked &asked) {
  if (!asked.known)
    seeUnknown();
  if (asked.need.blocks != 0)
    raise(asked.need);
  return asked.fits;
}

void Headroom::Asked::add(const Asked &other, bool beside) {
  std::array<std::uint32_t, 4> ours = fieldsOf(need), theirs = fieldsOf(other.need);
  for (std::size_t i = 0; i < ours.size(); ++i)
    ours[i] = beside ? sumOf(ours[i], theirs[i]) : std::max(ours[i], theirs[i]);
  need = footprintOf(ours);
  fits &= other.fits;
  known &= other.known;
}

} // namespace tally::runtime
