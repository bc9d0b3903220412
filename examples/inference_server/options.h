// The command line of inference_server.
#ifndef INFERENCE_SERVER_OPTIONS_H
#define INFERENCE_SERVER_OPTIONS_H

#include "encoder.h"
#include "mlp.h"
#include "transformer.h"

#include "tally/bundle/verdict.h"
#include "tally/support/result.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace inference_server {

/// The work that the server shares the device with, and the way of sharing. Alone is the plain
/// program: no best-effort work, the user's kernels, and no writes by Tally to the device.
enum class Mode { Alone, AloneFlushed, SamePriority, LowPriority, Tally };

std::string_view name(Mode mode);
constexpr bool hasTraining(Mode mode) { return mode >= Mode::SamePriority; }

/// The model that the best-effort work trains.
enum class Job { Transformer, Perceptron };

struct Options {
  std::string device = "emulator";
  std::string bundle; ///< the program's own when empty
  int requests = 0;   ///< a cell, over all repetitions
  int repetitions = 0;
  int workers = 2;
  double load = 0.3; ///< fraction of one worker's capacity
  int inputs = 2;    ///< number of distinct inputs of requests
  std::vector<tally::Kind> kinds = {tally::Kind::Persistent, tally::Kind::Guard, tally::Kind::Slice,
                                    tally::Kind::Checkpoint};
  std::vector<Mode> modes; ///< Alone first
  std::uint64_t seed = 1;
  std::string csv; ///< file with a line per cell and repetition; empty: no file
  EncoderShape encoder;
  Job job = Job::Transformer;
  MlpShape training; ///< sizes of the encoder; the transformer's sizes follow from them
  int transformerLayers = 1;

  bool onGpu() const { return device == "cuda"; }
};

/// The transformer of about the same size: `training.hidden` wide, with as many rows.
TransformerShape transformerShape(const Options &options);

/// The options, or nothing when --help was asked for; an error names the argument.
tally::Result<std::optional<Options>> parseOptions(int count, const char *const *arguments);

/// What --help prints.
std::string helpText();

} // namespace inference_server

#endif
