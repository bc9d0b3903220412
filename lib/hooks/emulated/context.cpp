#include "context.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
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

/// TALLY_EMULATOR_SMS, else a virtual SM for each processor, two at least.
std::uint32_t virtualSms() {
  if (const char *asked = std::getenv("TALLY_EMULATOR_SMS"))
    if (long count = std::strtol(asked, nullptr, 10); count >= 1 && count <= 256)
      return static_cast<std::uint32_t>(count);
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
  static auto *said = new std::set<std::string>; // calls may come while static objects go
  std::scoped_lock lock(mutex);
  if (said->insert(topic).second)
    std::fprintf(stderr, "tally: emulator: %s\n", line.c_str());
}

cudaError_t notServed(const char *call) {
  sayOnce(call, std::string(call) + " is not served");
  return remember(cudaErrorNotSupported);
}

std::array<char, 16> Context::uuid() const {
  std::array<char, 16> bytes{};
  const char *text = std::getenv("TALLY_EMULATOR_UUID");
  if (!text || !*text)
    return bytes;
  std::string digits(text);
  std::erase(digits, '-');
  bool right = digits.size() == 2 * bytes.size();
  for (std::size_t i = 0; right && i < bytes.size(); ++i) {
    unsigned byte = 0;
    const char *at = digits.data() + 2 * i;
    right = std::from_chars(at, at + 2, byte, 16).ptr == at + 2;
    bytes[i] = static_cast<char>(byte);
  }
  if (right)
    return bytes;
  sayOnce("uuid", "TALLY_EMULATOR_UUID=" + std::string(text) +
                      " is no UUID of 32 hexadecimal digits; the device has none");
  return {};
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
  constexpr std::size_t most = 1u << 20; // CUDA's buffer by default; it would overwrite
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
