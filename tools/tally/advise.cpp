#include "advise.h"

#include "run.h"
#include "watch.h" // of tally-top

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <tuple>
#include <utility>

namespace tally::launcher {

namespace {

/// A group of work without variants, recognised by parts of its kernels' names.
struct Sort {
  std::vector<std::string_view> parts;
  std::string_view advice;
};

const std::array<Sort, 3> &sorts() {
  static const std::array<Sort, 3> all = {{
      {{"conv", "cudnn", "dgrad", "wgrad", "fprop", "winograd"},
       "Convolutions of a library have no variants: torch.compile with "
       "TORCHINDUCTOR_MAX_AUTOTUNE=1 and TORCHINDUCTOR_MAX_AUTOTUNE_CONV_BACKENDS=TRITON makes "
       "kernels that have; TALLY_BEST_EFFORT_SMS keeps SMs free of those that stay."},
      {{"gemm", "nvjet", "cutlass", "xmma", "gemv", "splitKreduce"},
       "Products of a library have no variants: torch.compile with TORCHINDUCTOR_MAX_AUTOTUNE=1 "
       "and TORCHINDUCTOR_MAX_AUTOTUNE_GEMM_BACKENDS=TRITON makes kernels that have. Pad an odd "
       "extent, as of a vocabulary, to a multiple of 64. TALLY_BEST_EFFORT_SMS keeps SMs free of "
       "those that stay."},
      {{"at::native", "at_cuda_detail", "N2at", "flash_", "pytorch_"},
       "PyTorch's own kernels have no variants: torch.compile puts Triton's in their place. Until "
       "then smaller batches make them shorter."},
  }};
  return all;
}

std::string milliseconds(double microseconds) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.3f ms", microseconds / 1000);
  return text.data();
}

std::string padded(std::string text, std::size_t width) {
  return std::string(width - std::min(width, text.size()), ' ') + std::move(text);
}

/// Returns the value below which this part of the sorted values lies.
double quantile(const std::vector<double> &sorted, double part) {
  auto last = static_cast<double>(sorted.size() - 1);
  return sorted[static_cast<std::size_t>(std::lround(last * part))];
}

} // namespace

std::vector<Holder> holdersOf(const ProcessTrace &trace) {
  std::vector<TracedWork> work = trace.work;
  std::sort(work.begin(), work.end(),
            [](const auto &left, const auto &right) { return left.start < right.start; });
  // The latest end of each piece of work and all before it; finds the first one that may overlap.
  std::vector<double> ends;
  for (const TracedWork &each : work)
    ends.push_back(std::max(each.end(), ends.empty() ? each.end() : ends.back()));
  std::map<std::pair<std::string, std::string>, Holder> found;
  for (const TraceSlice &turnaround : trace.turnarounds) {
    std::map<std::pair<std::string, std::string>, double> met;
    auto first = std::upper_bound(ends.begin(), ends.end(), turnaround.start) - ends.begin();
    for (auto each = work.begin() + first; each != work.end() && each->start < turnaround.end();
         ++each) {
      double overlap =
          std::min(each->end(), turnaround.end()) - std::max(each->start, turnaround.start);
      if (overlap > 0)
        met[{each->name, each->kind}] += overlap;
    }
    for (const auto &[key, time] : met) {
      Holder &holder = found[key];
      ++holder.times;
      holder.longest = std::max(holder.longest, time);
      holder.total += time;
    }
  }
  std::vector<Holder> holders;
  for (auto &[key, holder] : found) {
    std::tie(holder.name, holder.kind) = key;
    holders.push_back(std::move(holder));
  }
  std::stable_sort(holders.begin(), holders.end(), [](const Holder &left, const Holder &right) {
    return left.longest > right.longest;
  });
  return holders;
}

std::string_view adviceFor(std::string_view name, std::string_view kind) {
  if (kind.empty())
    return "Groups went to the GPU at once, since nobody else was there: the first request waits "
           "for them. A smaller TALLY_RUN_AHEAD_US makes them shorter.";
  if (kind == "copy" || kind == "fill" || kind == "put" || name == "(copy)" || name == "(fill)")
    return "Copies and fills: of pinned memory they yield up to a larger size; copy in pieces of "
           "some MiB.";
  if (kind == "call")
    return "Calls that go as they are: graphs as a whole, host functions, calls of libraries. "
           "Launch best-effort work without graphs, or capture fewer steps in one.";
  if (kind == "checkpoint" || kind == "pause")
    return "Kernels that yield inside of their loops: what is left is the time from one poll to "
           "the next, and to save a block. A smaller 'tally-ptxopt --poll-period' polls more "
           "often.";
  if (kind != "non-preemptible")
    return "Kernels that yield at the end of a block: their blocks are long. The kinds checkpoint "
           "and pause yield inside of one: 'tally-ptxopt --variants=all --report=text' says of a "
           "kernel's PTX which it has, and why not; more and smaller blocks help too.";
  for (const Sort &sort : sorts())
    for (std::string_view part : sort.parts)
      if (name.find(part) != std::string_view::npos)
        return sort.advice;
  return "Kernels without variants in this run: those of Triton, NVRTC and PTX have them from the "
         "second run on; 'tally-ptxopt --report=text' says of a kernel's PTX what is refused, and "
         "why. TALLY_BEST_EFFORT_SMS keeps SMs free of those that stay.";
}

std::string advice(const ProcessTrace &trace, double over) {
  std::string text = trace.program + " (process " + std::to_string(trace.process) +
                     "): " + std::to_string(trace.requests) + " requests to yield, " +
                     std::to_string(trace.turnarounds.size()) + " of them met work";
  if (!trace.turnarounds.empty()) {
    std::vector<double> times;
    for (const TraceSlice &each : trace.turnarounds)
      times.push_back(each.duration);
    std::sort(times.begin(), times.end());
    text += ", which was gone after " + milliseconds(quantile(times, 0.5)) + " (half), " +
            milliseconds(quantile(times, 0.99)) + " (99 of 100), " + milliseconds(times.back()) +
            " (all)";
  }
  text += "\n";
  if (trace.lostEvents != 0)
    text += "  " + std::to_string(trace.lostEvents) +
            " older events had no room in the trace: TALLY_TRACE_EVENTS gives it more\n";
  std::vector<Holder> holders = holdersOf(trace);
  std::erase_if(holders, [&](const Holder &each) { return each.longest <= over; });
  if (holders.empty())
    return text + "  nothing held requests up for more than " + milliseconds(over) + "\n";
  text += "   times       longest         total  what\n";
  std::vector<std::string_view> said;
  for (const Holder &each : holders) {
    text += padded(std::to_string(each.times), 8) + padded(milliseconds(each.longest), 14) +
            padded(milliseconds(each.total), 14) + "  " + each.name +
            (each.kind.empty() ? "" : " (" + each.kind + ")") + "\n";
    std::string_view sentence = adviceFor(each.name, each.kind);
    if (std::find(said.begin(), said.end(), sentence) == said.end())
      said.push_back(sentence);
  }
  for (std::string_view each : said)
    text += "  -> " + std::string(each) + "\n";
  return text;
}

int advise(const AdviseOptions &options) {
  std::string text;
  for (const std::string &path : options.traces) {
    Result<ProcessTrace> trace = readTrace(path);
    if (!trace)
      return fail(trace.error().message, 1);
    text += advice(*trace, options.over);
  }
  return top::writeOut(text) ? 0 : exitLauncher;
}

} // namespace tally::launcher
