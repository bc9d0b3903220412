#include "options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

namespace tally::verify {

namespace {

Result<std::vector<Kind>> parseKinds(std::string_view text) {
  if (text == "all")
    return std::vector<Kind>(allKinds.begin(), allKinds.end());
  std::vector<Kind> kinds;
  for (;;) {
    std::size_t comma = text.find(',');
    auto kind = kindFromName(text.substr(0, comma));
    if (!kind)
      return Error{
          fmt::format("'{}' is no kind: slice, guard, persistent, pause, checkpoint, or all",
                      text.substr(0, comma))};
    if (std::ranges::find(kinds, *kind) == kinds.end())
      kinds.push_back(*kind);
    if (comma == std::string_view::npos)
      return kinds;
    text.remove_prefix(comma + 1);
  }
}

/// Stores a parser's result, or returns its error with the option's name.
template <class T, class Target>
Result<void> store(std::string_view option, Result<T> parsed, Target &target) {
  if (!parsed)
    return Error{fmt::format("{}: {}", option, parsed.error().message)};
  target = std::move(*parsed);
  return {};
}

Result<std::uint32_t> parseCount(std::string_view text) {
  std::uint32_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    return Error{fmt::format("'{}' is no number of bytes", text)};
  return value;
}

Result<DeviceChoice> parseDevice(std::string_view text) {
  if (text == "emulator")
    return DeviceChoice::Emulator;
  if (text == "cuda")
    return DeviceChoice::Cuda;
  return Error{fmt::format("'{}' is neither emulator nor cuda", text)};
}

template <class T> Result<T> parseAtLeast(std::string_view text, T least) {
  T value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least)
    return Error{fmt::format("'{}' is no number of at least {}", text, least)};
  return value;
}

/// Parses an option that generates kernels; nullopt for another option.
std::optional<Result<void>> parseCampaignOption(std::string_view name, std::string_view value,
                                                Options &options) {
  CampaignOptions &campaign = options.campaign;
  if (name == "--generate")
    return store(name, parseAtLeast<std::uint64_t>(value, 1), campaign.count);
  if (name == "--seed")
    return store(name, parseAtLeast<std::uint64_t>(value, 0), campaign.seed);
  if (name == "--threads")
    return store(name, parseAtLeast<unsigned>(value, 1), campaign.threads);
  if (name == "--keep")
    return store(name, Result<std::filesystem::path>(std::filesystem::path(value)), campaign.keep);
  if (name == "--write")
    return store(name, Result<std::string>(std::string(value)), options.writeFolder);
  return std::nullopt;
}

Result<void> parseOption(std::string_view name, std::string_view value, Options &options) {
  if (auto parsed = parseCampaignOption(name, value, options))
    return *parsed;
  if (name == "--launches") {
    options.launches = value;
    return {};
  }
  if (name == "--kernel") {
    options.kernel = value;
    return {};
  }
  if (name == "--coding") {
    options.coding = options.campaign.check.coding = value;
    return {};
  }
  if (name == "--poll-period")
    return store(name, parseAtLeast<std::uint64_t>(value, 1), options.pollPeriod);
  if (name == "--grid")
    return store(name, parseDim3(value), options.shape.grid);
  if (name == "--block")
    return store(name, parseDim3(value), options.shape.block);
  if (name == "--cluster")
    return store(name, parseDim3(value), options.shape.cluster);
  if (name == "--shared")
    return store(name, parseCount(value), options.shape.dynamicSharedBytes);
  if (name == "--arg") {
    ArgumentSpec argument;
    auto stored = store(name, parseArgument(value), argument);
    if (stored)
      options.arguments.push_back(std::move(argument));
    return stored;
  }
  if (name == "--variants")
    return store(name, parseKinds(value), options.verify.kinds);
  if (name == "--yield")
    return store(name, parseYieldMode(value), options.verify.yield);
  if (name == "--storm")
    return store(name, parseAtLeast<std::uint64_t>(value, 1), options.verify.stormLaunches);
  if (name == "--step-limit")
    return store(name, parseAtLeast<std::uint64_t>(value, 1), options.verify.stepLimit);
  if (name == "--compare")
    return store(name, parseComparison(value), options.verify.compare);
  if (name == "--device")
    return store(name, parseDevice(value), options.device);
  return Error{fmt::format("unknown option '{}'; --help lists them", name)};
}

} // namespace

const char *const helpText =
    R"(usage: tally-verify FILE --kernel=K --grid=X[,Y[,Z]] --block=X[,Y[,Z]] [options]
       tally-verify --launches=TABLE [options]
       tally-verify --generate=COUNT [--seed=S] [--variants=LIST] [options]

Runs a kernel of FILE as it is, then each of its variants while they are asked to yield, and compares
all buffers and module variables. FILE is PTX, which is rewritten first, or a bundle of tally-ptxopt.

  --kernel=K             the kernel's name
  --grid=X[,Y[,Z]]       thread blocks
  --block=X[,Y[,Z]]      threads of a block
  --cluster=X[,Y[,Z]]    thread blocks of a cluster, where the launch asks for them
  --shared=BYTES         dynamic shared memory of a block (default 0)
  --arg=SPEC             an argument, in order: TYPE:VALUE with TYPE one of
                         i8 u8 i16 u16 i32 u32 i64 u64 f32 f64,
                         bytes:HEX for one passed by value, or
                         ptr:TYPE:COUNT:INIT with INIT zero, iota, random:SEED (integers
                         over the whole range, floats in [-1, 1]) or @FILE (raw elements)
  --variants=LIST        slice, guard, persistent, pause, checkpoint (comma-separated), or all
                         (default)
  --coding=NAME          writes the variants in this coding where they have it (tally-ptxopt)
  --poll-period=CYCLES   of kinds that poll in loops (tally-ptxopt); short by default (128), so that
                         most turns poll
  --yield=every          a request to yield at each poll, at all polls, raised at one poll and
                         withdrawn at the next, and 20 random ones (default)
  --yield=N              one request, at poll N
  --yield=random:SEED    random requests under a random schedule
  --storm=N              launches after which a storm of requests ends (default 256)
  --step-limit=N         warp-instructions after which a launch on the emulator is taken for endless;
                         without it 2^30 for the user's kernel, and for a variant's some hundreds of
                         times what that took, 2^24 at least
  --compare=MODE         exact, ulp:N or sorted; only where the result depends on the order of
                         blocks: others are compared exactly
  --device=DEVICE        emulator (default) or cuda: a GPU under a storm of requests
  --help, --version

With --launches each line of TABLE is run in turn, with the options given here behind its own: FILE,
beside TABLE, the kernel's name, and options, separated by blanks; # begins a comment.

With --generate random kernels are made and verified on the emulator, with a request to yield at
each poll and random schedules. What fails is reduced, and written as generated_SEED.ptx.

  --generate=COUNT       how many; the same ones from the same seed
  --seed=S               the first kernel's seed, the others count up from it (default 1)
  --threads=N            kernels at a time (default: as many as the machine has cores)
  --keep=DIR             where reduced failures go (default: here)
  --write=DIR            writes the kernels and launches.txt to DIR and runs nothing
  --large                larger grids and longer blocks, for a device

Exit status: 0 all variants agree (refused ones are reported, and are no failure); 1 usage, input or
I/O; 2 a variant or the user's kernel differs, faults, does not end or failed to assemble.
)";

Result<Dim3> parseDim3(std::string_view text) {
  std::uint32_t extents[3] = {1, 1, 1};
  std::string_view rest = text;
  for (std::uint32_t &extent : extents) {
    std::string_view field = rest.substr(0, rest.find(','));
    auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), extent);
    if (error != std::errc() || end != field.data() + field.size() || extent == 0)
      break;
    if (field.size() == rest.size())
      return Dim3{extents[0], extents[1], extents[2]};
    rest.remove_prefix(field.size() + 1);
  }
  return Error{fmt::format("'{}' is not X, X,Y or X,Y,Z with each at least 1", text)};
}

Result<Options> parseOptions(std::span<const std::string_view> arguments) {
  Options options;
  bool hasGrid = false, hasBlock = false;
  for (std::string_view argument : arguments) {
    if (argument == "--large") {
      options.campaign.generate.large = true;
      continue;
    }
    if (argument == "--help" || argument == "--version") {
      (argument == "--help" ? options.help : options.version) = true;
      return options;
    }
    if (!argument.starts_with("--")) {
      if (!options.file.empty())
        return Error{fmt::format("a second file '{}'; one at a time", argument)};
      options.file = argument;
      continue;
    }
    std::size_t equals = argument.find('=');
    if (equals == std::string_view::npos)
      return Error{
          fmt::format("option '{}' is unknown or lacks its '='; --help lists them", argument)};
    std::string_view name = argument.substr(0, equals);
    if (auto parsed = parseOption(name, argument.substr(equals + 1), options); !parsed)
      return parsed.error();
    hasGrid |= name == "--grid";
    hasBlock |= name == "--block";
  }
  if (options.campaign.count != 0) {
    options.campaign.check.kinds = options.verify.kinds;
    if (!options.file.empty() || !options.kernel.empty() || hasGrid || hasBlock)
      return Error{"--generate takes no FILE, --kernel, --grid or --block"};
    return options;
  }
  if (!options.launches.empty()) {
    if (!options.file.empty() || !options.kernel.empty() || hasGrid || hasBlock)
      return Error{"--launches takes no FILE, --kernel, --grid or --block"};
    return options;
  }
  if (options.file.empty())
    return Error{"no FILE; --help shows the usage"};
  if (options.kernel.empty() || !hasGrid || !hasBlock)
    return Error{"--kernel, --grid and --block are needed"};
  return options;
}

} // namespace tally::verify
