#include "engine.h"

#include "settings.h"

#include <chrono>
#include <future>
#include <memory>

namespace tally::hooks {

using namespace std::chrono_literals;

namespace {

/// Asking the device whether a stream is idle is a driver call (1.3 us), which contends with the
/// application's own.
constexpr auto monitorInterval = 20us;

runtime::Nanoseconds now() { return std::chrono::steady_clock::now().time_since_epoch(); }

} // namespace

Result<std::unique_ptr<Engine>> Engine::create(const CudaApi &api, Captures &captures,
                                               const std::vector<StreamState *> &streams,
                                               std::uint32_t yieldEveryMicroseconds) {
  std::unique_ptr<Engine> engine(new Engine(api, captures));
  if (Result<void> opened = engine->open(streams); !opened)
    return opened.error();
  if (yieldEveryMicroseconds != 0)
    engine->yields = std::thread(
        [raw = engine.get(), yieldEveryMicroseconds] { raw->storm(yieldEveryMicroseconds); });
  return engine;
}

/// The device is opened on the queue's own thread: what fails there leaves no error behind that the
/// application's threads would find.
Result<void> Engine::open(const std::vector<StreamState *> &streams) {
  int current = 0;
  if (cudaError_t status = api.cudaGetDevice(&current); status != cudaSuccess)
    return ApiDevice::failure(api, "cudaGetDevice", status);
  // Shared: the queue's thread may still be in set_value() when this one has gone on.
  auto opened = std::make_shared<std::promise<Result<void>>>();
  std::future<Result<void>> outcome = opened->get_future();
  work.emplace([this, current, opened] {
    // For the whole life of the thread: its calls are no hooked ones, and a capture that another
    // thread makes does not forbid them.
    static thread_local InHook inside;
    cudaStreamCaptureMode relaxed = cudaStreamCaptureModeRelaxed;
    api.cudaThreadExchangeStreamCaptureMode(&relaxed);
    api.cudaSetDevice(current);
    executorDevice = current;
    Result<void> done = device.open(runtime::DeviceControl::initialWord());
    if (done) {
      control.emplace(runtime::ControlWriter{&device, {}, device.controlAddress()},
                      runtime::ClockFunction(now));
      highPriority.emplace(device, *control);
      runner.emplace(api, device, KernelRunner::Control{*control, [this] { return permit(); }});
      done = runner->open();
    }
    opened->set_value(done);
  });
  Result<void> done = outcome.get();
  if (!done)
    return done;
  // What was put on these before was not counted: it counts until they are seen idle.
  for (StreamState *stream : streams)
    if (!stream->bestEffort && stream->launches.load() != 0)
      if (runtime::HighStream *high = highOf(*stream); high && highPriority->beginCall(*high))
        highPriority->endCall(*high);
  return {};
}

runtime::HighStream *Engine::adopt(StreamState &stream) {
  std::unique_lock lock(adopting);
  if (runtime::HighStream *known = stream.high.load())
    return known;
  Result<runtime::HighStream *> adopted = highPriority->adopt(ApiDevice::idOf(stream));
  if (!adopted) {
    warn(Warning::NoDevice,
         adopted.error().message + "; some high-priority work is not seen by best-effort work");
    return nullptr;
  }
  stream.high.store(*adopted, std::memory_order_release);
  return *adopted;
}

std::uint64_t Engine::submit(StreamState &stream, Run run) {
  threadIsHigh() = false;
  int target = stream.device;
  return work->submit(stream, [this, target, run = std::move(run)] {
    if (target != executorDevice && api.cudaSetDevice(target) == cudaSuccess)
      executorDevice = target;
    return run();
  });
}

std::uint64_t Engine::permit() {
  constexpr runtime::PriorityPolicy policy;
  while (true) {
    // Streams that cannot be asked count as idle (ApiDevice::isIdle), so this fails for nobody.
    static_cast<void>(highPriority->monitor());
    if (std::optional<std::uint64_t> epoch = control->permit(policy))
      return *epoch;
    if (work->isUrgent())
      return control->currentEpoch();
    std::this_thread::sleep_for(monitorInterval);
  }
}

void Engine::mark(StreamState &stream) {
  if (captures.any())
    return;
  cudaEvent_t marker = stream.marker.load();
  if (!marker &&
      stream.api->cudaEventCreateWithFlags(&marker, cudaEventDisableTiming) != cudaSuccess)
    return;
  stream.api->cudaEventRecord(marker, stream.handle);
  stream.marker.store(marker);
}

/// A test's: requests that come and go, whatever the application does.
void Engine::storm(std::uint32_t everyMicroseconds) {
  InHook inside;
  cudaStreamCaptureMode relaxed = cudaStreamCaptureModeRelaxed;
  api.cudaThreadExchangeStreamCaptureMode(&relaxed);
  api.cudaSetDevice(device.number());
  while (!retired) {
    std::this_thread::sleep_for(std::chrono::microseconds(everyMicroseconds));
    if (!control->raise() || !control->withdraw())
      return;
  }
}

void Engine::retire() {
  retired = true;
  if (yields.joinable())
    yields.join();
  work->stop();
}

} // namespace tally::hooks
