#include "options.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <functional>
#include <string_view>

namespace inference_server {

namespace {

/// Each mode's name on the command line and in the table.
struct ModeName {
  Mode mode;
  std::string_view option, shown;
};
constexpr ModeName modeNames[] = {{Mode::Alone, "alone", "alone"},
                                  {Mode::AloneFlushed, "flushed", "alone, L2 flushed"},
                                  {Mode::SamePriority, "same", "same priority"},
                                  {Mode::LowPriority, "low", "low priority"},
                                  {Mode::Tally, "tally", "tally"}};

using tally::Error;
using tally::Result;

/// Sizes that suit the device: a request takes a fraction of a second on the emulator, and 1 to 2
/// ms on a large GPU. There the grids of training kernels are many waves of blocks of about 0.1 ms.
void setDefaults(Options &options) {
  if (options.onGpu()) {
    options.requests = 2000;
    options.modes = {Mode::Alone, Mode::AloneFlushed, Mode::SamePriority, Mode::LowPriority,
                     Mode::Tally};
    options.repetitions = 5;
    options.encoder = {.layers = 6, .width = 512, .heads = 8, .sequence = 256, .batch = 2};
    options.training = {
        .batch = 65536, .inputs = 512, .hidden = 512, .classes = 64, .chunk = 512, .rate = 0.1f};
  } else {
    options.requests = 100;
    options.modes = {Mode::Alone, Mode::LowPriority, Mode::Tally};
    options.repetitions = 2;
    options.encoder = {.layers = 3, .width = 64, .heads = 4, .sequence = 32, .batch = 2};
    int size = options.job == Job::Transformer ? 64 : 256;
    options.training = {
        .batch = 640, .inputs = size, .hidden = size, .classes = 16, .chunk = size, .rate = 0.1f};
  }
}

/// One option: its value, its help text, and the function that reads it. The function returns false
/// for a wrong value.
struct Row {
  std::string_view name, value, help;
  std::function<bool(Options &, std::string_view)> read;
};

template <class T> bool readNumber(std::string_view text, T &to, T lowest, T highest) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), to);
  return error == std::errc() && end == text.data() + text.size() && to >= lowest && to <= highest;
}

template <class Member> auto integer(Member member, int lowest, int highest = 1 << 24) {
  return [=](Options &options, std::string_view text) {
    return readNumber(text, std::invoke(member, options), lowest, highest);
  };
}

/// The words of a comma-separated list.
std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> words;
  for (std::size_t comma = text.find(','); comma != text.npos; comma = text.find(',')) {
    words.push_back(text.substr(0, comma));
    text.remove_prefix(comma + 1);
  }
  words.push_back(text);
  return words;
}

bool readKinds(Options &options, std::string_view text) {
  options.kinds.clear();
  if (text == "none")
    return true;
  for (std::string_view word : split(text)) {
    auto kind = tally::kindFromName(word);
    if (!kind)
      return false;
    options.kinds.push_back(*kind);
  }
  return true;
}

bool readModes(Options &options, std::string_view text) {
  std::vector<std::string_view> words = split(text);
  options.modes = {Mode::Alone}; // the mode that all others are compared with
  std::size_t known = 0;
  for (const ModeName &each : modeNames)
    for (std::string_view word : words)
      if (word == each.option) {
        ++known;
        if (each.mode != Mode::Alone)
          options.modes.push_back(each.mode);
      }
  return known == words.size();
}

const std::vector<Row> &rows() {
  static const std::vector<Row> table = {
      {"device", "emulator|cuda", "what to run on (emulator)",
       [](Options &options, std::string_view text) {
         options.device = text;
         return text == "emulator" || text == "cuda";
       }},
      {"bundle", "FILE", "kernels with their variants (the ones built with the program)",
       [](Options &options, std::string_view text) {
         options.bundle = text;
         return !text.empty();
       }},
      {"requests", "N", "requests in a cell, over all repetitions (100; cuda 2000)",
       integer([](Options &o) -> int & { return o.requests; }, 1)},
      {"repetitions", "N", "rounds in which the cells take turns (2; cuda 5)",
       integer([](Options &o) -> int & { return o.repetitions; }, 1)},
      {"load", "F", "arrivals, as a fraction of one worker's capacity (0.3)",
       [](Options &options, std::string_view text) {
         return readNumber(text, options.load, 0.001, 0.95);
       }},
      {"workers", "N", "threads that serve (2)",
       integer([](Options &o) -> int & { return o.workers; }, 1, 64)},
      {"inputs", "N", "distinct inputs that requests choose from (2)",
       integer([](Options &o) -> int & { return o.inputs; }, 1, 1000)},
      {"kinds", "LIST",
       "kinds of variants, best first, or none (persistent,guard,slice,checkpoint)", readKinds},
      {"modes", "LIST",
       "of alone,flushed,same,low,tally; alone is always there (alone,low,tally; cuda all)",
       readModes},
      {"seed", "N", "of arrivals, inputs and weights (1)",
       [](Options &options, std::string_view text) {
         return readNumber<std::uint64_t>(text, options.seed, 0, ~std::uint64_t{0});
       }},
      {"csv", "FILE", "write a line for each cell and repetition",
       [](Options &options, std::string_view text) {
         options.csv = text;
         return !text.empty();
       }},
      {"layers", "N", "encoder: layers (3; cuda 6)",
       integer([](Options &o) -> int & { return o.encoder.layers; }, 1, 100)},
      {"width", "N", "encoder: model width (64; cuda 512)",
       integer([](Options &o) -> int & { return o.encoder.width; }, 1, 8192)},
      {"heads", "N", "encoder: attention heads, of at most 64 columns each (4; cuda 8)",
       integer([](Options &o) -> int & { return o.encoder.heads; }, 1, 128)},
      {"sequence", "N", "encoder: positions (32; cuda 256)",
       integer([](Options &o) -> int & { return o.encoder.sequence; }, 1, 512)},
      {"batch", "N", "encoder: sequences in a request (2)",
       integer([](Options &o) -> int & { return o.encoder.batch; }, 1, 1024)},
      {"training", "transformer|perceptron", "what is trained (transformer)",
       [](Options &options, std::string_view text) {
         options.job = text == "perceptron" ? Job::Perceptron : Job::Transformer;
         return text == "perceptron" || text == "transformer";
       }},
      {"be-layers", "N", "training: layers of the transformer (1)",
       integer([](Options &o) -> int & { return o.transformerLayers; }, 1, 100)},
      {"be-batch", "N", "training: rows of the batch (640; cuda 65536)",
       integer([](Options &o) -> int & { return o.training.batch; }, 1)},
      {"be-size", "N",
       "training: inputs and hidden width, and with them the time of a block"
       " (transformer 64, perceptron 256; cuda 512)",
       [](Options &options, std::string_view text) {
         bool good = readNumber(text, options.training.hidden, 1, 8192);
         options.training.inputs = options.training.hidden;
         options.training.chunk = std::max(16, options.training.hidden);
         return good;
       }},
      {"be-chunk", "N", "training: rows that a block of a weight gradient adds up (as be-size)",
       integer([](Options &o) -> int & { return o.training.chunk; }, 1)},
      {"be-classes", "N", "training: classes (16; cuda 64)",
       integer([](Options &o) -> int & { return o.training.classes; }, 1, 4096)},
  };
  return table;
}

Result<std::optional<Options>> fail(std::string message) {
  return Error{std::move(message) + "; see --help"};
}

/// Checks that concern several options together.
std::string conflict(const Options &options) {
  const EncoderShape &encoder = options.encoder;
  const MlpShape &training = options.training;
  if (encoder.width % encoder.heads != 0 || encoder.headSize() > 64)
    return fmt::format(
        "--width={} must be a multiple of --heads={}, with at most 64 columns a head",
        encoder.width, encoder.heads);
  if (options.requests < options.repetitions)
    return "--requests must be at least --repetitions";
  // Kernels index with 32 bits.
  std::int64_t widest = std::max({training.inputs, training.hidden, training.classes});
  if (options.job == Job::Transformer &&
      (training.hidden % 8 != 0 || training.classes % 8 != 0 || training.chunk % 8 != 0))
    return "a transformer needs multiples of 8 for --be-size, --be-chunk and --be-classes";
  if (options.job == Job::Transformer)
    widest = std::max<std::int64_t>(widest, 4 * training.hidden);
  if (training.batch * widest >= std::int64_t{1} << 31 || training.splits() > 65535)
    return "--be-batch is too large for this --be-size and --be-chunk";
  return "";
}

} // namespace

std::string_view name(Mode mode) {
  for (const ModeName &each : modeNames)
    if (each.mode == mode)
      return each.shown;
  return "";
}

TransformerShape transformerShape(const Options &options) {
  const MlpShape &training = options.training;
  TransformerShape shape;
  shape.layers = options.transformerLayers;
  shape.width = training.hidden;
  shape.inputs = training.inputs;
  shape.classes = training.classes;
  shape.chunk = training.chunk;
  // The largest heads that the kernels support, and at least two of them where the width allows it.
  int headSize = 64;
  while (headSize > 8 && (shape.width % headSize != 0 || shape.width < 2 * headSize))
    headSize /= 2;
  shape.heads = shape.width / headSize;
  shape.sequence = std::clamp(training.batch, 1, 32);
  shape.batch = training.batch / shape.sequence;
  return shape;
}

Result<std::optional<Options>> parseOptions(int count, const char *const *arguments) {
  Options options;
  std::vector<std::string_view> words(arguments + 1, arguments + count);
  // The defaults depend on the device and the training, so these two are read first.
  for (std::string_view word : words)
    if (word.starts_with("--device="))
      options.device = word.substr(word.find('=') + 1);
    else if (word == "--training=perceptron")
      options.job = Job::Perceptron;
  setDefaults(options);

  for (std::string_view word : words) {
    if (word == "--help" || word == "-h")
      return std::optional<Options>();
    std::size_t equals = word.find('=');
    if (!word.starts_with("--") || equals == word.npos)
      return fail(fmt::format("'{}' is not of the form --option=value", word));
    std::string_view name = word.substr(2, equals - 2), value = word.substr(equals + 1);
    const Row *found = nullptr;
    for (const Row &row : rows())
      if (row.name == name)
        found = &row;
    if (!found)
      return fail(fmt::format("there is no option --{}", name));
    if (!found->read(options, value))
      return fail(fmt::format("'{}' is no good for --{}={}", value, name, found->value));
  }
  if (std::string message = conflict(options); !message.empty())
    return fail(message);
  return std::optional<Options>(std::move(options));
}

std::string helpText() {
  std::string text =
      "inference_server: serve a small transformer encoder while a training step uses "
      "the rest of the device\n\nOptions (defaults in parentheses):\n";
  for (const Row &row : rows())
    text += fmt::format("  --{:<24} {}\n", fmt::format("{}={}", row.name, row.value), row.help);
  return text;
}

} // namespace inference_server
