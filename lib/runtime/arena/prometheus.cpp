// Writes the arenas' status in Prometheus's text format.
#include "tally/runtime/arena_status.h"

#include <algorithm>
#include <cstdio>

namespace tally::runtime {

namespace {

std::string numberText(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.15g", value);
  return text;
}

double seconds(std::chrono::nanoseconds time) { return static_cast<double>(time.count()) * 1e-9; }

std::string escaped(const std::string &value) {
  std::string text;
  for (char c : value) {
    if (c == '"' || c == '\\')
      text += '\\';
    text += c == '\n' ? ' ' : c;
  }
  return text;
}

std::string labelsOf(const ArenaStatus &arena, const ClientStatus &client) {
  return "gpu=\"" + escaped(arena.uuid) + "\",class=\"" + classText(client) + "\",name=\"" +
         escaped(client.name) + "\",pid=\"" + std::to_string(client.pid) + "\",slot=\"" +
         std::to_string(client.slot) + "\"";
}

/// The clients that have a metric.
enum class Of : std::uint8_t { Both, High, BestEffort };

class Text {
public:
  explicit Text(std::span<const ArenaStatus> arenas) : arenas(arenas) {}

  void head(const char *name, const char *type, const char *help) {
    text += std::string("# HELP ") + name + " " + help + "\n# TYPE " + name + " " + type + "\n";
  }
  template <class Value>
  void each(const char *name, const char *type, const char *help, Of which, const Value &value) {
    head(name, type, help);
    ofEach(which, [&](const std::string &labels, const ClientStatus &client) {
      sample(name, labels, value(client));
    });
  }
  void byKind(const char *name, const char *help) {
    head(name, "counter", help);
    ofEach(Of::BestEffort, [&](const std::string &labels, const ClientStatus &client) {
      for (std::size_t i = 0; i < allKinds.size(); ++i)
        sample(name, labels + ",kind=\"" + std::string(tally::name(allKinds[i])) + "\"",
               static_cast<double>(client.launchesByKind[i]));
    });
  }
  /// A histogram with a bucket for each power of two. `finely`: an octave that is not empty shows
  /// all its buckets; once shown they stay, since counts only grow.
  template <class Times>
  void histogram(const char *name, const char *help, Of which, Times ClientStatus::*counts,
                 std::chrono::nanoseconds ClientStatus::*sum, bool finely = false) {
    head(name, "histogram", help);
    std::string base = name;
    ofEach(which, [&](const std::string &labels, const ClientStatus &client) {
      const Times &histogram = client.*counts;
      std::uint64_t below = 0;
      bool all = false;
      for (std::uint32_t i = 0; i < Times::buckets; ++i) {
        auto from = histogram.counts.begin() + i;
        if (finely && i % Times::bucketsOfOctave == 0)
          all = std::any_of(from, from + Times::bucketsOfOctave, [](auto n) { return n != 0; });
        below += *from;
        if ((all || (i + 1) % Times::bucketsOfOctave == 0) && i + 1 != Times::buckets)
          sample(base + "_bucket",
                 labels + ",le=\"" + numberText(seconds(Times::lowerBound(i + 1))) + "\"",
                 static_cast<double>(below));
      }
      sample(base + "_bucket", labels + ",le=\"+Inf\"", static_cast<double>(below));
      sample(base + "_sum", labels, seconds(client.*sum));
      sample(base + "_count", labels, static_cast<double>(below));
    });
  }

  std::string text;

private:
  template <class Call> void ofEach(Of which, const Call &call) {
    for (const ArenaStatus &arena : arenas)
      for (const ClientStatus &client : arena.clients)
        if (which == Of::Both || (which == Of::High) == (client.clientClass == Class::High))
          call(labelsOf(arena, client), client);
  }
  void sample(const std::string &name, const std::string &labels, double value) {
    text += name + "{" + labels + "} " + numberText(value) + "\n";
  }
  std::span<const ArenaStatus> arenas;
};

} // namespace

std::string prometheusText(std::span<const ArenaStatus> arenas) {
  Text text(arenas);
  auto count = [](std::uint64_t ClientStatus::*which) {
    return [which](const ClientStatus &client) { return static_cast<double>(client.*which); };
  };
  auto is = [](ClientStatus::State state) {
    return [state](const ClientStatus &client) { return client.state == state ? 1.0 : 0.0; };
  };
  text.each("tally_active", "gauge", "1 while the client's work may run on the GPU, else 0.",
            Of::Both, is(ClientStatus::State::Active));
  text.each("tally_waiting", "gauge", "1 while best-effort work is held back, else 0.",
            Of::BestEffort, is(ClientStatus::State::Waiting));
  text.each("tally_active_seconds_total", "counter",
            "Time for which high-priority work was active.", Of::High,
            [](const ClientStatus &each) { return seconds(each.active); });
  text.each("tally_requests_total", "counter", "Explicit requests that have begun.", Of::High,
            count(&ClientStatus::requests));
  text.each("tally_missed_deadlines_total", "counter",
            "Explicit requests that ended behind their deadlines.", Of::High,
            count(&ClientStatus::missedDeadlines));
  text.each("tally_launches_total", "counter",
            "Best effort: launches finished. High priority: launches and copies called.", Of::Both,
            count(&ClientStatus::launches));
  text.each("tally_physical_launches_total", "counter",
            "Launches given to the device for best-effort ones.", Of::BestEffort,
            count(&ClientStatus::physicalLaunches));
  text.byKind("tally_variant_launches_total", "Best-effort launches finished, by kind of variant.");
  text.each("tally_saved_blocks_total", "counter", "Blocks that were saved inside of a loop.",
            Of::BestEffort, count(&ClientStatus::savedBlocks));
  text.each("tally_confined_launches_total", "counter",
            "Physical launches on a part of the SMs, beside requests.", Of::BestEffort,
            count(&ClientStatus::confinedLaunches));
  text.each("tally_confined_sms", "gauge", "SMs of the newest confined launch.", Of::BestEffort,
            count(&ClientStatus::confinedSms));
  text.each("tally_yields_total", "counter", "Physical launches that left blocks to run.",
            Of::BestEffort, count(&ClientStatus::yields));
  text.each("tally_requests_to_yield_total", "counter",
            "Times best-effort work was asked to yield.", Of::BestEffort,
            count(&ClientStatus::requestsToYield));
  text.each("tally_own_streams", "gauge", "Streams that Tally has for best-effort work.",
            Of::BestEffort, count(&ClientStatus::ownStreams));
  text.each("tally_own_memory_bytes", "gauge", "Device memory that Tally has for best-effort work.",
            Of::BestEffort, count(&ClientStatus::ownBytes));
  text.each("tally_memory_bytes", "gauge", "Device memory that the process has allocated.",
            Of::Both, count(&ClientStatus::memoryUsed));
  text.each("tally_memory_peak_bytes", "gauge", "The most of it at a time.", Of::Both,
            count(&ClientStatus::memoryPeak));
  text.each("tally_memory_quota_bytes", "gauge", "What the process may allocate; 0: no limit.",
            Of::BestEffort, count(&ClientStatus::memoryQuota));
  text.each("tally_memory_reserve_bytes", "gauge", "What the process leaves free of the device's.",
            Of::BestEffort, count(&ClientStatus::memoryReserve));
  text.each("tally_memory_refused_total", "counter", "Allocations beyond quota or reserve.",
            Of::BestEffort, count(&ClientStatus::memoryRefusals));
  text.histogram("tally_turnaround_seconds",
                 "From a request to yield until the host saw best-effort work gone.",
                 Of::BestEffort, &ClientStatus::turnaround, &ClientStatus::turnaroundSum);
  text.histogram("tally_request_seconds", "Explicit requests, from their begin to their end.",
                 Of::High, &ClientStatus::requestTime, &ClientStatus::requestSum, true);
  return text.text;
}

} // namespace tally::runtime
