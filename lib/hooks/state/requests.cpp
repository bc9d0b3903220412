#include "state/requests.h"

#include <thread>

namespace tally::hooks {

namespace {

constexpr std::uint64_t numberMask = 0xffffffff, oneTag = numberMask + 1;

} // namespace

bool Requests::grow() {
  std::unique_lock lock(growing);
  if ((head.load() & numberMask) != 0)
    return true; // another thread has made it
  std::uint32_t before = made.load();
  if (before == mostOpen)
    return false;
  std::unique_ptr<Record[]> &chunk = owned[before / chunkSize];
  chunk = std::make_unique<Record[]>(chunkSize);
  for (std::uint32_t i = 0; i < chunkSize; ++i)
    chunk[i].number = before + i + 1;
  chunks[before / chunkSize].store(chunk.get(), std::memory_order_release);
  made.store(before + chunkSize);
  for (std::uint32_t number = before + chunkSize; number > before; --number)
    giveBack(number);
  return true;
}

void Requests::giveBack(std::uint32_t number) {
  Record &record = at(number);
  std::uint64_t first = head.load(std::memory_order_relaxed), now = 0;
  do {
    record.next.store(static_cast<std::uint32_t>(first & numberMask), std::memory_order_relaxed);
    now = ((first & ~numberMask) + oneTag) | number;
  } while (!head.compare_exchange_weak(first, now, std::memory_order_release,
                                       std::memory_order_relaxed));
}

Requests::Record *Requests::take() {
  std::uint64_t first = head.load(std::memory_order_acquire);
  for (;;) {
    auto number = static_cast<std::uint32_t>(first & numberMask);
    if (number == 0) {
      if (!grow())
        return nullptr;
      first = head.load(std::memory_order_acquire);
      continue;
    }
    // Another thread may have taken the record by now, and its `next` may be any number: then the
    // tag has changed too.
    std::uint64_t behind = at(number).next.load(std::memory_order_relaxed);
    if (head.compare_exchange_weak(first, ((first & ~numberMask) + oneTag) | behind,
                                   std::memory_order_acquire))
      return &at(number);
  }
}

std::uint64_t Requests::open(Record &record) {
  std::uint64_t generation = record.state.load(std::memory_order_relaxed) / oneGeneration + 1;
  openNow.fetch_add(1);
  record.state.store(generation * oneGeneration + Open);
  return generation << numberBits | record.number;
}

Requests::Record *Requests::hold(std::uint64_t request) {
  auto number = static_cast<std::uint32_t>(request & ((1u << numberBits) - 1));
  if (number - 1 >= made.load(std::memory_order_acquire)) // number 0 wraps
    return nullptr;
  Record &record = at(number);
  std::uint64_t state = (request >> numberBits) * oneGeneration + Open;
  for (std::uint64_t seen = state; !record.state.compare_exchange_weak(seen, state - Open + Held);
       seen = state) {
    if (seen != state && seen != state - Open + Held)
      return nullptr;
    std::this_thread::yield();
  }
  return &record;
}

Requests::Record *Requests::holdNumber(std::uint32_t number) {
  for (;;) {
    std::uint64_t seen = at(number).state.load();
    if ((seen & phases) == Free)
      return nullptr;
    if (Record *held = hold(seen / oneGeneration << numberBits | number))
      return held;
  }
}

void Requests::letGo(Record &record) {
  record.state.store(record.state.load(std::memory_order_relaxed) - Held + Open);
}

void Requests::close(Record &record) {
  record.countedBy = nullptr;
  record.streams.clear();
  record.thread.store(nullptr, std::memory_order_relaxed);
  // The generation stays until the record is opened again.
  record.state.store(record.state.load(std::memory_order_relaxed) - Held + Free,
                     std::memory_order_release);
  openNow.fetch_sub(1);
  giveBack(record.number);
}

bool Requests::isAnyOf(const void *thread) const {
  std::uint32_t count = any() ? made.load() : 0;
  for (std::uint32_t number = 1; number <= count; ++number)
    if (at(number).thread.load() == thread)
      return true;
  return false;
}

} // namespace tally::hooks
