#include "trace/trace.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

namespace tally::runtime {

namespace {

constexpr std::size_t mostNames = 65536;

Error failure(const std::string &path) { return {path + ": " + std::strerror(errno)}; }

/// Name of the file until it is complete.
std::string unfinishedName(const std::string &path) {
  return path + ".new-" + std::to_string(getpid());
}

Result<void> writeFile(const std::string &path, const std::string &text) {
  int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0)
    return failure(path);
  std::size_t done = 0;
  while (done < text.size()) {
    ssize_t written = ::write(file, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0) {
      Error error = failure(path);
      close(file);
      unlink(path.c_str());
      return error;
    }
    done += static_cast<std::size_t>(written);
  }
  if (close(file) != 0)
    return failure(path);
  return {};
}

} // namespace

pid_t Trace::currentProcess() { return getpid(); }

Result<std::unique_ptr<Trace>> Trace::open(std::string_view path, std::size_t capacity) {
  if (capacity < leastCapacity || capacity > mostCapacity)
    return Error{std::to_string(capacity) + " events; from " + std::to_string(leastCapacity) +
                 " to " + std::to_string(mostCapacity) + " can be kept"};
  std::string file(path);
  for (std::size_t at = 0; (at = file.find("%p", at)) != std::string::npos;)
    file.replace(at, 2, std::to_string(getpid()));
  // Report a file that cannot be written now, not at the end of the program.
  std::string unfinished = unfinishedName(file);
  if (Result<void> tried = writeFile(unfinished, ""); !tried)
    return tried.error();
  unlink(unfinished.c_str());
  return std::unique_ptr<Trace>(new Trace(std::move(file), capacity));
}

std::uint32_t Trace::nameOf(std::string_view name) {
  std::unique_lock lock(namesMutex);
  auto known = numbers.find(name);
  if (known != numbers.end())
    return known->second;
  if (names.size() > mostNames)
    return mostNames;
  names.emplace_back(names.size() == mostNames ? std::string_view("(further names)") : name);
  auto number = static_cast<std::uint32_t>(names.size() - 1);
  if (number != mostNames)
    numbers.emplace(name, number);
  return number;
}

std::array<std::uint64_t, 4> Trace::pack(const TraceEvent &event) {
  auto flags = static_cast<std::uint64_t>(event.resumes) |
               static_cast<std::uint64_t>(event.yielded) << 1 |
               static_cast<std::uint64_t>(event.isEstimate) << 2 |
               static_cast<std::uint64_t>(event.way) << 3;
  return {static_cast<std::uint64_t>(event.type) | std::uint64_t{event.lane} << 8 | flags << 16 |
              static_cast<std::uint64_t>(event.kind) << 24 | std::uint64_t{event.name} << 32,
          static_cast<std::uint64_t>(event.start.count()),
          static_cast<std::uint64_t>(event.duration.count()), event.value};
}

TraceEvent Trace::unpack(const std::array<std::uint64_t, 4> &words) {
  TraceEvent event;
  event.type = static_cast<TraceEvent::Type>(words[0] & 0xff);
  event.lane = static_cast<std::uint8_t>(words[0] >> 8);
  event.resumes = (words[0] >> 16 & 1) != 0;
  event.yielded = (words[0] >> 17 & 1) != 0;
  event.isEstimate = (words[0] >> 18 & 1) != 0;
  event.way = static_cast<TraceEvent::Way>(words[0] >> 19 & 0x1f);
  event.kind = static_cast<Kind>(words[0] >> 24 & 0xff);
  event.name = static_cast<std::uint32_t>(words[0] >> 32);
  event.start = Nanoseconds(static_cast<std::int64_t>(words[1]));
  event.duration = Nanoseconds(static_cast<std::int64_t>(words[2]));
  event.value = words[3];
  return event;
}

void Trace::add(const TraceEvent &event) {
  std::uint64_t number = added.fetch_add(1);
  Slot &slot = ring[number % ring.size()];
  // A thread that the ring has overtaken is still writing this slot.
  if (slot.state.exchange(writing, std::memory_order_acquire) == writing) {
    collided.fetch_add(1);
    return;
  }
  std::array<std::uint64_t, 4> words = pack(event);
  for (std::size_t i = 0; i < words.size(); ++i)
    slot.words[i].store(words[i], std::memory_order_release);
  slot.state.store(number + 1, std::memory_order_release);
}

/// Reads a slot; nothing where it is empty or being written.
std::optional<TraceEvent> Trace::read(const Slot &slot) {
  std::uint64_t before = slot.state.load(std::memory_order_acquire);
  std::array<std::uint64_t, 4> words{};
  // A thread that stored one of these words has set `writing` before.
  for (std::size_t i = 0; i < words.size(); ++i)
    words[i] = slot.words[i].load(std::memory_order_acquire);
  if (before == 0 || before == writing || slot.state.load(std::memory_order_relaxed) != before)
    return std::nullopt;
  return unpack(words);
}

std::uint64_t Trace::lost() const {
  std::uint64_t all = added.load();
  return collided.load() + (all > ring.size() ? all - ring.size() : 0);
}

std::vector<TraceEvent> Trace::events() const {
  std::vector<TraceEvent> found;
  for (const Slot &slot : ring)
    if (std::optional<TraceEvent> event = read(slot))
      found.push_back(*event);
  // An event that contains another comes before it.
  std::stable_sort(found.begin(), found.end(), [](const TraceEvent &a, const TraceEvent &b) {
    return a.start != b.start ? a.start < b.start : a.type < b.type;
  });
  return found;
}

Result<void> Trace::write() const {
  if (getpid() != process)
    return {};
  std::string unfinished = unfinishedName(file);
  if (Result<void> written = writeFile(unfinished, text()); !written)
    return written;
  if (std::rename(unfinished.c_str(), file.c_str()) == 0)
    return {};
  Error error = failure(file);
  unlink(unfinished.c_str());
  return error;
}

} // namespace tally::runtime
