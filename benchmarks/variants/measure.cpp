#include "measure.h"

#include "tally/runtime/control_word.h"
#include "tally/runtime/variant_launch.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

namespace variant_benchmark {

using namespace tally;
using runtime::DevicePtr;

namespace {

/// Sizes of the arrays; every kernel masks its indices to them.
constexpr std::size_t outBytes = std::size_t{16} << 20, inBytes = std::size_t{512} << 20;
constexpr std::uint32_t maxBlocks = 1u << 20;

Ratio quartiles(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  auto at = [&](double share) {
    return values[static_cast<std::size_t>(
        std::lround(share * static_cast<double>(values.size() - 1)))];
  };
  return {at(0.5), at(0.25), at(0.75)};
}

} // namespace

struct Bench::Prepared {
  const bundle::Kernel *kernel;
  LaunchShape shape;
  std::uint32_t resident; ///< thread blocks on the device at a time
  std::uint32_t rounds;
};

Bench::Bench(runtime::Device &device, const bundle::Bundle &bundle, const Options &options)
    : device(device), bundle(bundle), options(options), module(must(device.loadModule(bundle))),
      stream(must(device.createStream(runtime::StreamPriority::High))),
      out(must(device.allocate(outBytes))), in(must(device.allocate(inBytes))),
      control(must(device.allocate(sizeof(std::uint64_t)))),
      state(must(device.allocate(sizeof(tally_launch_state)))),
      list(must(device.allocate(maxBlocks * sizeof(std::uint32_t)))) {
  must(device.fill(stream, in, std::byte{0}, inBytes));
  must(device.writeValue(stream, control, runtime::encodeControl({})));
  must(device.synchronize(stream));
}

Bench::Prepared Bench::prepare(const Subject &subject, std::uint32_t rounds) {
  Prepared prepared{};
  prepared.kernel = bundle.kernel(subject.kernel);
  if (!prepared.kernel)
    throw std::runtime_error("the bundle has no kernel " + std::string(subject.kernel));
  Dim3 block{subject.threads, 1, 1};
  auto function = must(device.function(module, subject.kernel));
  prepared.resident =
      std::max(1u, must(device.residentBlocksPerSm(function, block, 0))) * device.info().smCount;
  std::uint32_t plane = subject.rows * subject.planes;
  std::uint32_t blocks = std::min(prepared.resident * options.waves, maxBlocks);
  prepared.shape = {{std::max(1u, blocks / plane), subject.rows, subject.planes}, block, 0};
  prepared.rounds = rounds;
  return prepared;
}

namespace {

std::vector<std::byte> parametersOf(const bundle::Kernel &kernel, DevicePtr out, DevicePtr in,
                                    std::uint32_t rounds) {
  std::vector<std::byte> bytes(kernel.tallyParameterOffset() + sizeof(tally_launch_params));
  std::memcpy(bytes.data() + kernel.parameters[0].offset, &out, sizeof out);
  std::memcpy(bytes.data() + kernel.parameters[1].offset, &in, sizeof in);
  std::memcpy(bytes.data() + kernel.parameters[2].offset, &rounds, sizeof rounds);
  return bytes;
}

double secondsOf(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

} // namespace

double Bench::timeUser(const Prepared &prepared) {
  auto function = must(device.function(module, prepared.kernel->name));
  auto parameters = parametersOf(*prepared.kernel, out, in, prepared.rounds);
  auto start = std::chrono::steady_clock::now();
  must(device.launch(stream, function, prepared.shape,
                     std::span(parameters).first(prepared.kernel->parameterBytes)));
  must(device.synchronize(stream));
  return secondsOf(std::chrono::steady_clock::now() - start);
}

double Bench::timeVariant(const Prepared &prepared, Kind kind) {
  auto function = must(device.function(module, bundle::entryName(prepared.kernel->name, kind)));
  auto parameters = parametersOf(*prepared.kernel, out, in, prepared.rounds);
  // The variant may keep fewer blocks resident than the user's kernel.
  std::uint32_t workers =
      std::max(1u, must(device.residentBlocksPerSm(function, prepared.shape.block, 0))) *
      device.info().smCount;
  runtime::VariantLaunch launch(kind, prepared.shape, prepared.resident * options.wavesPerSlice,
                                runtime::workersFor(*prepared.kernel, prepared.shape, workers));
  must(device.fill(stream, state, std::byte{0}, sizeof(tally_launch_state)));
  must(device.synchronize(stream));
  auto start = std::chrono::steady_clock::now();
  while (!launch.finished()) {
    runtime::PhysicalLaunch next = launch.next();
    next.params.control = control;
    next.params.state = state;
    next.params.list_out = list;
    std::memcpy(parameters.data() + prepared.kernel->tallyParameterOffset(), &next.params,
                sizeof next.params);
    must(device.launch(stream, function, next.shape, parameters));
    if (kind != Kind::Slice)
      break;
    launch.absorb({});
  }
  must(device.synchronize(stream));
  double seconds = secondsOf(std::chrono::steady_clock::now() - start);
  tally_launch_state left{};
  must(device.copyToHost(stream, std::as_writable_bytes(std::span(&left, 1)), state));
  must(device.synchronize(stream));
  if (kind != Kind::Slice && launch.absorb(left))
    throw std::runtime_error(prepared.kernel->name + ": blocks are left though nothing asked");
  return seconds;
}

std::uint32_t Bench::roundsFor(const Subject &subject, double blockMicroseconds) {
  double rounds = 8;
  for (int attempt = 0; attempt < 4; ++attempt) {
    Prepared prepared = prepare(subject, static_cast<std::uint32_t>(rounds));
    timeUser(prepared);
    double waves = static_cast<double>(prepared.shape.grid.count()) / prepared.resident;
    double perBlock = timeUser(prepared) / waves * 1e6;
    rounds = std::clamp(rounds * blockMicroseconds / perBlock, 1.0, 1e6);
  }
  return static_cast<std::uint32_t>(rounds);
}

Row Bench::measure(const Subject &subject, double blockMicroseconds) {
  std::uint32_t rounds = options.emulator ? 1 : roundsFor(subject, blockMicroseconds);
  Prepared prepared = prepare(subject, rounds);
  std::vector<double> user, ratios[std::size(allKinds)];
  for (std::uint32_t i = 0; i != options.repetitions + 1; ++i) {
    double before = timeUser(prepared);
    std::vector<double> variants;
    for (Kind kind : allKinds)
      variants.push_back(prepared.kernel->emitted(kind) ? timeVariant(prepared, kind) : 0);
    double base = (before + timeUser(prepared)) / 2;
    if (i == 0)
      continue; // the first turn loads code
    user.push_back(base);
    for (Kind kind : allKinds)
      ratios[static_cast<std::size_t>(kind)].push_back(variants[static_cast<std::size_t>(kind)] /
                                                       base);
  }
  Row row;
  double waves = static_cast<double>(prepared.shape.grid.count()) / prepared.resident;
  row.waves = static_cast<std::uint32_t>(waves);
  row.blockMicroseconds = quartiles(user).median / waves * 1e6;
  for (Kind kind : allKinds)
    if (prepared.kernel->emitted(kind))
      row.ratios[static_cast<std::size_t>(kind)] =
          quartiles(ratios[static_cast<std::size_t>(kind)]);
  return row;
}

} // namespace variant_benchmark
