#include "table.h"

#include "words.h"

#include <array>
#include <cstdarg>
#include <cstdio>

namespace tally::top {

namespace {

std::string format(const char *pattern, ...) __attribute__((format(printf, 1, 2)));
std::string format(const char *pattern, ...) {
  char text[256];
  va_list values;
  va_start(values, pattern);
  std::vsnprintf(text, sizeof text, pattern, values);
  va_end(values);
  return text;
}

std::string microseconds(std::optional<std::chrono::nanoseconds> value) {
  if (!value)
    return "-";
  double us = static_cast<double>(value->count()) * 1e-3;
  return us < 100 ? format("%.1f", us) : format("%.0f", us);
}

std::string bytes(std::uint64_t count) {
  auto value = static_cast<double>(count);
  std::size_t unit = 0;
  for (; value >= 1000 && unit < 4; ++unit)
    value /= 1024;
  return format(unit == 0 || value >= 100 ? "%.0f%s" : "%.1f%s", value,
                std::array<const char *, 5>{"", "K", "M", "G", "T"}[unit]);
}

/// Returns the process's memory and its quota.
std::string memory(const runtime::ClientStatus &client) {
  if (client.memoryPeak == 0 && client.memoryQuota == 0)
    return "-";
  return bytes(client.memoryUsed) +
         (client.memoryQuota != 0 ? "/" + bytes(client.memoryQuota) : std::string());
}

/// Returns Tally's own resources for the work: streams, and memory.
std::string own(const runtime::ClientStatus &client) {
  return client.ownStreams == 0 ? "-"
                                : format("%u %s", static_cast<unsigned>(client.ownStreams),
                                         bytes(client.ownBytes).c_str());
}

std::string line(const ClientRow &row) {
  bool isHigh = row.now.clientClass == runtime::Class::High;
  auto time = [&](double fraction) {
    return microseconds(isHigh ? row.requests.quantile(fraction)
                               : row.turnaround.quantile(fraction));
  };
  return format("%8u  %-16.16s  %-13s  %-7s  %10.1f  %9s  %9s  %9s  %9s  %8s  %7s  %13s  %9s\n",
                row.now.pid, row.now.name.c_str(), runtime::classText(row.now).c_str(),
                stateWord(row.now), row.launchesPerSecond,
                isHigh ? "-" : format("%.1f", row.yieldsPerSecond).c_str(),
                isHigh ? format("%.1f", row.requestsPerSecond).c_str() : "-", time(0.5).c_str(),
                time(0.99).c_str(), isHigh ? format("%.1f", row.missedPerSecond).c_str() : "-",
                isHigh ? format("%.1f %%", 100 * row.activeFraction).c_str() : "-",
                memory(row.now).c_str(), own(row.now).c_str());
}

} // namespace

std::string toTable(std::span<const ArenaFrame> frames) {
  std::string text;
  for (const ArenaFrame &frame : frames) {
    text += (text.empty() ? "GPU " : "\nGPU ") + (frame.uuid.empty() ? "?" : frame.uuid) + "  " +
            frame.path + "\n";
    if (frame.clients.empty()) {
      text += "no process has work on it\n";
      continue;
    }
    text += format("%8s  %-16s  %-13s  %-7s  %10s  %9s  %9s  %9s  %9s  %8s  %7s  %13s  %9s\n",
                   "PID", "NAME", "CLASS", "STATE", "LAUNCHES/S", "YIELDS/S", "REQUESTS/S",
                   "P50 us", "P99 us", "MISSED/S", "ACTIVE", "MEMORY", "OWN");
    for (const ClientRow &row : frame.clients)
      text += line(row);
  }
  return text.empty() ? "no arena\n" : text;
}

} // namespace tally::top
