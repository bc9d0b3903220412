#include "context.h"

#include "api/environment.h"

#include <algorithm>
#include <cstdio>
#include <set>
#include <thread>

namespace tally::hooks::emulated {

namespace {

thread_local cudaError_t threadsLastError = cudaSuccess;

cudaError_t codeOf(emulator::FaultKind kind) {
  switch (kind) {
  case emulator::FaultKind::OutOfBounds:
    return cudaErrorIllegalAddress;
  case emulator::FaultKind::Misaligned:
    return cudaErrorMisalignedAddress;
  case emulator::FaultKind::Deadlock:
  case emulator::FaultKind::StepLimit:
    return cudaErrorLaunchTimeout;
  case emulator::FaultKind::Assertion:
    return cudaErrorAssert;
  case emulator::FaultKind::Unimplemented:
    return cudaErrorNotSupported;
  case emulator::FaultKind::BadLaunch:
    return cudaErrorInvalidConfiguration;
  case emulator::FaultKind::BarrierMisuse:
  case emulator::FaultKind::Trap:
    break;
  }
  return cudaErrorLaunchFailure;
}

/// The defaults where the environment is wrong; other code reports the error.
const runtime::EnvironmentSettings &settings() {
  static const runtime::EnvironmentSettings known = [] {
    Result<runtime::EnvironmentSettings> read = runtime::readEnvironment();
    return read ? *read : runtime::EnvironmentSettings();
  }();
  return known;
}

/// TALLY_EMULATOR_SMS, else one virtual SM per processor, at least two.
std::uint32_t virtualSms() {
  if (std::uint32_t asked = settings().emulator.sms; asked != 0)
    return asked;
  return std::clamp(std::thread::hardware_concurrency(), 2u, 64u);
}

} // namespace

cudaError_t remember(cudaError_t error) {
  if (error != cudaSuccess)
    threadsLastError = error;
  return error;
}

cudaError_t lastError() { return threadsLastError; }
void clearLastError() { threadsLastError = cudaSuccess; }

void sayOnce(const std::string &topic, const std::string &line) {
  static std::mutex mutex;
  static auto *said = new std::set<std::string>; // for calls during static destruction
  std::scoped_lock lock(mutex);
  if (said->insert(topic).second)
    std::fprintf(stderr, "tally: emulator: %s\n", line.c_str());
}

cudaError_t notServed(const char *call) {
  sayOnce(call, std::string(call) + " is not served");
  return remember(cudaErrorNotSupported);
}

std::array<char, 16> Context::uuid() const {
  return settings().emulator.uuid.value_or(std::array<char, 16>{});
}

Context &Context::get() {
  static auto *only = new Context;
  return *only;
}

runtime::EmulatorDevice *Context::device() {
  std::call_once(opened, [this] {
    runtime::EmulatorOptions options;
    options.smCount = virtualSms();
    options.hostAddressed = true;
    auto device = std::make_unique<runtime::EmulatorDevice>(options);
    if (!device->machine().isHostAddressed()) {
      sayOnce("device", "no room for device memory in the address space of this process");
      return;
    }
    device->machine().setPrinter([this](std::string_view text) { print(text); });
    emulator = std::move(device);
  });
  wasTried.store(true, std::memory_order_release);
  return emulator.get();
}

cudaError_t Context::health() {
  runtime::EmulatorDevice *device = this->device();
  if (!device)
    return cudaErrorInitializationError;
  auto fault = device->fault();
  if (!fault)
    return cudaSuccess;
  flushPrints();
  sayOnce("fault", fault->message);
  return codeOf(fault->kind);
}

cudaError_t Context::meaning(const Result<void> &done, cudaError_t otherwise) {
  if (done)
    return cudaSuccess;
  cudaError_t sticky = health();
  return sticky != cudaSuccess ? sticky : otherwise;
}

void Context::print(std::string_view text) {
  constexpr std::size_t most = 1u << 20; // CUDA's default buffer size; CUDA would overwrite it
  std::scoped_lock lock(printMutex);
  printed += text;
  if (printed.size() < most)
    return;
  std::fwrite(printed.data(), 1, printed.size(), stdout);
  printed.clear();
}

void Context::flushPrints() {
  std::scoped_lock lock(printMutex);
  if (printed.empty())
    return;
  std::fwrite(printed.data(), 1, printed.size(), stdout);
  printed.clear();
}

} // namespace tally::hooks::emulated
