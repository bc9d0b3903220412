#include "table.h"

#include "statistics.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace inference_server {

namespace {

std::vector<double> latencies(const Cell &cell) {
  std::vector<double> values;
  for (const Served &each : cell.served)
    values.push_back(each.latency());
  return values;
}

double p99(const Cell &cell) { return percentile(latencies(cell), 0.99); }

/// One row of the table: all repetitions of a mode together.
struct Summary {
  std::vector<double> latencies, turnarounds; // seconds
  double seconds = 0, active = 0;
  std::uint64_t steps = 0, yields = 0, requestsToYield = 0;
  // Ratio of the P99 to that of the mode Alone, by repetition.
  double smallestRatio = INFINITY, largestRatio = 0;

  double p99() const { return percentile(latencies, 0.99); }
  double stepsPerSecond() const { return static_cast<double>(steps) / seconds; }
};

Summary summarize(const ModeCells &mode, const ModeCells &alone) {
  Summary summary;
  for (std::size_t i = 0; i < mode.cells.size(); ++i) {
    const Cell &cell = mode.cells[i];
    std::vector<double> values = latencies(cell);
    summary.latencies.insert(summary.latencies.end(), values.begin(), values.end());
    for (std::uint64_t each : cell.statistics.turnaroundNanoseconds)
      summary.turnarounds.push_back(static_cast<double>(each) * 1e-9);
    summary.seconds += cell.seconds;
    summary.active += cell.active;
    summary.steps += cell.steps;
    summary.yields += cell.statistics.yields;
    summary.requestsToYield += cell.statistics.requestsToYield;
    double ratio = p99(cell) / p99(alone.cells[i]);
    summary.smallestRatio = std::min(summary.smallestRatio, ratio);
    summary.largestRatio = std::max(summary.largestRatio, ratio);
  }
  return summary;
}

double aloneStepsPerSecond(const Measurement &measurement) {
  double seconds = 0, steps = 0;
  for (const TrainingAlone &each : measurement.trainingAlone) {
    seconds += each.seconds;
    steps += static_cast<double>(each.steps);
  }
  return steps / seconds;
}

constexpr const char *rowFormat =
    "{:<18} {:>8} {:>9} {:>9} {:>9} {:>13} {:>6} {:>8} {:>9} {:>11} {:>7} {:>9} {:>17}\n";

std::string heading() {
  return fmt::format(rowFormat, "", "requests", "P50 ms", "P99 ms", "P99/alone", "by repetition",
                     "A", "steps/s", "of alone", "of (1-A)", "yields", "asked to", "turnaround us");
}

/// `ratio`: the P99 over that of the mode Alone.
std::string line(const ModeCells &mode, const Summary &summary, double aloneRate, double ratio) {
  std::string spread = fmt::format("{:.2f}-{:.2f}", summary.smallestRatio, summary.largestRatio);
  double activity = summary.active / summary.seconds;
  std::string rate = "-", ofAlone = "-", ofIdle = "-", yields = "-", asked = "-", turnaround = "-";
  if (hasTraining(mode.mode)) {
    double relative = summary.stepsPerSecond() / aloneRate;
    rate = fmt::format("{:.2f}", summary.stepsPerSecond());
    ofAlone = fmt::format("{:.3f}", relative);
    ofIdle = fmt::format("{:.3f}", relative / (1 - activity));
  }
  if (mode.mode == Mode::Tally) {
    yields = fmt::format("{}", summary.yields);
    asked = fmt::format("{}", summary.requestsToYield);
    if (!summary.turnarounds.empty())
      turnaround = fmt::format("{:.0f} / {:.0f}", percentile(summary.turnarounds, 0.5) * 1e6,
                               percentile(summary.turnarounds, 0.99) * 1e6);
  }
  return fmt::format(rowFormat, name(mode.mode), summary.latencies.size(),
                     fmt::format("{:.3f}", percentile(summary.latencies, 0.5) * 1e3),
                     fmt::format("{:.3f}", summary.p99() * 1e3), fmt::format("{:.2f}", ratio),
                     spread, fmt::format("{:.3f}", activity), rate, ofAlone, ofIdle, yields, asked,
                     turnaround);
}

std::string trainingText(const Options &options) {
  if (options.job == Job::Perceptron) {
    const MlpShape &shape = options.training;
    return fmt::format("a perceptron (batch {}, {} inputs, 2 x {} hidden, {} classes)", shape.batch,
                       shape.inputs, shape.hidden, shape.classes);
  }
  TransformerShape shape = transformerShape(options);
  return fmt::format("a transformer in f16 ({} layer{}, width {}, {} heads, {} x {} positions, {} "
                     "classes)",
                     shape.layers, shape.layers == 1 ? "" : "s", shape.width, shape.heads,
                     shape.batch, shape.sequence, shape.classes);
}

/// Describes the run: modes, device and amount of work.
std::string introduction(const Options &options, const Measurement &measurement) {
  const EncoderShape &encoder = options.encoder;
  return fmt::format(
      "\nOn {}: serving an encoder ({} layers, width {}, {} heads, {} x {} positions a request)\n"
      "while training {}.\n"
      "{} requests a cell over {} repetitions, {} worker{}, Poisson at {:.0f} % of the capacity of "
      "one: alone a request takes {:.3f} ms.\n\n",
      measurement.capacity.device, encoder.layers, encoder.width, encoder.heads, encoder.batch,
      encoder.sequence, trainingText(options), options.requests, options.repetitions,
      options.workers, options.workers == 1 ? "" : "s", options.load * 100,
      measurement.capacity.service.count() * 1e3);
}

/// Whether the figures are meaningful: best-effort work must have slowed requests down without
/// Tally. NaN: not run.
std::string whetherItCounts(double lowPriorityRatio) {
  if (std::isnan(lowPriorityRatio))
    return "Whether the cell counts is not known: there was no plain low-priority stream.\n";
  return fmt::format("{}: with a plain low-priority stream P99 is {:.2f}x alone (at least 2x is "
                     "asked for).\n",
                     lowPriorityRatio >= 2 ? "The cell counts" : "The cell does NOT count",
                     lowPriorityRatio);
}

/// Summary of the table in a sentence or two; empty where a mode is missing.
std::string inWords(const Measurement &measurement, double lowPriorityRatio) {
  const ModeCells &alone = measurement.modes.front();
  for (const ModeCells &mode : measurement.modes) {
    if (mode.mode != Mode::Tally || std::isnan(lowPriorityRatio))
      continue;
    Summary summary = summarize(mode, alone);
    double ofIdle = summary.stepsPerSecond() / aloneStepsPerSecond(measurement) /
                    (1 - summary.active / summary.seconds);
    return fmt::format(
        "\nIn words: of 100 requests the slowest takes {:.1f} times as long beside training on a "
        "low-priority stream\nas alone, and {:.1f} times as long with tally. With tally, training "
        "has {:.0f} % of its own speed in the time\nthat requests leave it.\n",
        lowPriorityRatio, summary.p99() / summarize(alone, alone).p99(), ofIdle * 100);
  }
  return {};
}

} // namespace

std::string report(const Options &options, const Measurement &measurement) {
  const ModeCells &alone = measurement.modes.front();
  double aloneRate = aloneStepsPerSecond(measurement), lowPriorityRatio = NAN;
  std::string text = introduction(options, measurement);
  text += heading();
  double aloneP99 = summarize(alone, alone).p99();
  for (const ModeCells &mode : measurement.modes) {
    Summary summary = summarize(mode, alone);
    double ratio = summary.p99() / aloneP99;
    if (mode.mode == Mode::LowPriority)
      lowPriorityRatio = ratio;
    text += line(mode, summary, aloneRate, ratio);
  }
  text += fmt::format(rowFormat, "training alone", "-", "-", "-", "-", "-", "-",
                      fmt::format("{:.2f}", aloneRate), "1.000", "-", "-", "-", "-");
  text += "\nP50, P99: from the intended arrival to the answer. A: fraction of the time with a "
          "request being served.\nsteps/s: of training; of (1-A): over steps/s alone x (1 - A). "
          "turnaround: P50 / P99.\n";
  text += whetherItCounts(lowPriorityRatio);
  for (const Check &check : measurement.checks)
    text += fmt::format("{}  {}\n", check.right ? "right" : "WRONG", check.text);
  return text + inWords(measurement, lowPriorityRatio);
}

std::string csv(const Measurement &measurement) {
  std::string text = "mode,repetition,requests,p50_ms,p99_ms,seconds,active_seconds,steps,yields,"
                     "requests_to_yield,turnaround_p50_us,turnaround_p99_us\n";
  auto microseconds = [](const Cell &cell, double fraction) {
    const std::vector<std::uint64_t> &all = cell.statistics.turnaroundNanoseconds;
    return percentile({all.begin(), all.end()}, fraction) * 1e-3;
  };
  for (const ModeCells &mode : measurement.modes)
    for (std::size_t i = 0; i < mode.cells.size(); ++i) {
      const Cell &cell = mode.cells[i];
      text += fmt::format(
          "\"{}\",{},{},{:.4f},{:.4f},{:.4f},{:.4f},{},{},{},{:.1f},{:.1f}\n", name(mode.mode),
          i + 1, cell.served.size(), percentile(latencies(cell), 0.5) * 1e3, p99(cell) * 1e3,
          cell.seconds, cell.active, cell.steps, cell.statistics.yields,
          cell.statistics.requestsToYield, microseconds(cell, 0.5), microseconds(cell, 0.99));
    }
  for (std::size_t i = 0; i < measurement.trainingAlone.size(); ++i)
    text += fmt::format("\"training alone\",{},,,,{:.4f},,{},,,,\n", i + 1,
                        measurement.trainingAlone[i].seconds, measurement.trainingAlone[i].steps);
  return text;
}

bool allRight(const Measurement &measurement) {
  return std::all_of(measurement.checks.begin(), measurement.checks.end(),
                     [](const Check &check) { return check.right; });
}

} // namespace inference_server
