// The emulator as the runtime's device: order on streams, priority between blocks, writes that land
// at once.
#include "tally/runtime/device.h"
#include "tally/runtime/runtime.h"

#include <doctest/doctest.h>

#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

using namespace tally;
using namespace tally::runtime;

namespace {

const char *const kernels = R"(.version 8.0
.target sm_90
.address_size 64
// out[i] = out[i] * 3 + 1
.visible .entry step(.param .u64 out, .param .u32 n)
{
  .reg .pred %p<2>; .reg .b32 %r<5>; .reg .b64 %d<3>;
  ld.param.u64 %d1, [out];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.u32 %r2, %r2, %r3, %r4;
  setp.ge.u32 %p1, %r2, %r1;
  @%p1 ret;
  mul.wide.u32 %d2, %r2, 4;
  add.u64 %d1, %d1, %d2;
  ld.global.u32 %r3, [%d1];
  mad.lo.u32 %r3, %r3, 3, 1;
  st.global.u32 [%d1], %r3;
  ret;
}
// Each block counts for a while, then adds one to *out.
.visible .entry slow(.param .u64 out, .param .u32 rounds)
{
  .reg .pred %p<2>; .reg .b32 %r<3>; .reg .b64 %d<2>;
  ld.param.u64 %d1, [out];
  ld.param.u32 %r1, [rounds];
again:
  sub.u32 %r1, %r1, 1;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra again;
  mov.u32 %r2, %tid.x;
  setp.eq.u32 %p1, %r2, 0;
  @%p1 red.global.add.u32 [%d1], 1;
  ret;
}
// Waits until *word is not 0, then writes it to *out.
.visible .entry await(.param .u64 word, .param .u64 out)
{
  .reg .pred %p<2>; .reg .b64 %d<4>;
  ld.param.u64 %d1, [word];
  ld.param.u64 %d2, [out];
again:
  ld.relaxed.gpu.global.u64 %d3, [%d1];
  setp.eq.u64 %p1, %d3, 0;
  @%p1 bra again;
  st.global.u64 [%d2], %d3;
  ret;
}
.visible .entry stray()
{
  .reg .b32 %r<2>; .reg .b64 %d<2>;
  mov.u64 %d1, 64;
  ld.global.u32 %r1, [%d1];
  ret;
}
)";

struct Fixture {
  explicit Fixture(std::uint32_t smCount = 2) {
    auto opened = openEmulatorDevice({smCount, 2});
    REQUIRE_MESSAGE(bool(opened), opened.error().message);
    device = std::move(*opened);
    bundle::Bundle bundle;
    bundle.images.push_back({bundle::ImageFormat::Ptx, 90, kernels});
    auto loaded = device->loadModule(bundle);
    REQUIRE_MESSAGE(bool(loaded), loaded.error().message);
    module = *loaded;
  }
  FunctionId function(std::string_view name) {
    auto found = device->function(module, name);
    REQUIRE(bool(found));
    return *found;
  }
  StreamId stream(StreamPriority priority) {
    auto created = device->createStream(priority);
    REQUIRE(bool(created));
    return *created;
  }
  template <class T> DevicePtr upload(StreamId on, const std::vector<T> &values) {
    auto pointer = device->allocate(values.size() * sizeof(T));
    REQUIRE(bool(pointer));
    REQUIRE(bool(device->copyToDevice(on, *pointer, std::as_bytes(std::span(values)))));
    REQUIRE(bool(device->synchronize(on)));
    return *pointer;
  }
  std::unique_ptr<Device> device;
  ModuleId module{};
};

LaunchShape shapeOf(std::uint32_t blocks, std::uint32_t threads) {
  return {{blocks, 1, 1}, {threads, 1, 1}, 0};
}

} // namespace

TEST_CASE("copies, fills and launches of one stream happen in order") {
  Fixture f;
  StreamId stream = f.stream(StreamPriority::Low);
  FunctionId step = f.function("step");
  std::vector<std::uint32_t> values(1000, 5), back(1000);
  DevicePtr pointer = *f.device->allocate(4000);
  REQUIRE(bool(f.device->copyToDevice(stream, pointer, std::as_bytes(std::span(values)))));
  for (int i = 0; i < 5; ++i)
    REQUIRE(bool(f.device->launch(stream, step, shapeOf(8, 128),
                                  Arguments(pointer, std::uint32_t{1000}).bytes())));
  REQUIRE(bool(f.device->fill(stream, pointer, std::byte{1}, 4)));
  REQUIRE(bool(f.device->copyToHost(stream, std::as_writable_bytes(std::span(back)), pointer)));
  REQUIRE(bool(f.device->synchronize(stream)));
  CHECK(back[0] == 0x01010101u);
  CHECK(back[1] == 5 * 243 + 121);
  CHECK(back[999] == 5 * 243 + 121);
  CHECK(*f.device->isIdle(stream));
}

TEST_CASE("a high-priority grid overtakes a best-effort one between blocks") {
  Fixture f(1);
  StreamId low = f.stream(StreamPriority::Low), high = f.stream(StreamPriority::High);
  DevicePtr counter = f.upload<std::uint32_t>(low, {0});
  DevicePtr values = f.upload<std::uint32_t>(high, std::vector<std::uint32_t>(64, 1));
  FunctionId slow = f.function("slow"), step = f.function("step");
  REQUIRE(bool(f.device->launch(low, slow, shapeOf(400, 32),
                                Arguments(counter, std::uint32_t{20000}).bytes())));
  REQUIRE(bool(
      f.device->launch(high, step, shapeOf(2, 32), Arguments(values, std::uint32_t{64}).bytes())));
  REQUIRE(bool(f.device->synchronize(high)));
  CHECK_FALSE(*f.device->isIdle(low));
  REQUIRE(bool(f.device->synchronize(low)));
  std::uint32_t count = 0;
  REQUIRE(bool(f.device->copyToHost(low, std::as_writable_bytes(std::span(&count, 1)), counter)));
  REQUIRE(bool(f.device->synchronize(low)));
  CHECK(count == 400);
}

TEST_CASE("a value written on the control stream reaches kernels that are polling it") {
  Fixture f;
  StreamId low = f.stream(StreamPriority::Low), control = f.stream(StreamPriority::Control);
  auto word = f.device->allocateMapped(8);
  REQUIRE(bool(word));
  DevicePtr out = f.upload<std::uint64_t>(low, {0});
  // As many blocks as virtual SMs, so that no host thread that runs blocks is free.
  REQUIRE(bool(f.device->launch(low, f.function("await"), shapeOf(2, 1),
                                Arguments(word->device, out).bytes())));
  CHECK_FALSE(*f.device->isIdle(low));
  REQUIRE(bool(f.device->writeValue(control, word->device, 77)));
  REQUIRE(bool(f.device->synchronize(control)));
  std::uint64_t onHost = 0;
  std::memcpy(&onHost, word->host, 8);
  CHECK(onHost == 77);
  REQUIRE(bool(f.device->synchronize(low)));
  std::uint64_t seen = 0;
  REQUIRE(bool(f.device->copyToHost(low, std::as_writable_bytes(std::span(&seen, 1)), out)));
  REQUIRE(bool(f.device->synchronize(low)));
  CHECK(seen == 77);
}

TEST_CASE("a stream that waits for another starts when that has done what was on it") {
  Fixture f;
  StreamId first = f.stream(StreamPriority::Low), second = f.stream(StreamPriority::High);
  StreamId control = f.stream(StreamPriority::Control);
  auto gate = f.device->allocateMapped(8), flag = f.device->allocateMapped(8);
  DevicePtr out = f.upload<std::uint64_t>(first, {0});
  REQUIRE(bool(f.device->launch(first, f.function("await"), shapeOf(1, 1),
                                Arguments(gate->device, out).bytes())));
  REQUIRE(bool(f.device->waitFor(second, first)));
  REQUIRE(bool(f.device->writeValue(second, flag->device, 1)));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(__atomic_load_n(reinterpret_cast<std::uint64_t *>(flag->host), __ATOMIC_ACQUIRE) == 0);
  CHECK_FALSE(*f.device->isIdle(second));
  REQUIRE(bool(f.device->writeValue(control, gate->device, 1)));
  REQUIRE(bool(f.device->synchronize(second)));
  CHECK(__atomic_load_n(reinterpret_cast<std::uint64_t *>(flag->host), __ATOMIC_ACQUIRE) == 1);
  CHECK(*f.device->isIdle(first));
}

TEST_CASE("a fault ends the device, and says where it happened") {
  Fixture f;
  StreamId stream = f.stream(StreamPriority::Low);
  REQUIRE(bool(f.device->launch(stream, f.function("stray"), shapeOf(1, 1), {})));
  auto done = f.device->synchronize(stream);
  REQUIRE_FALSE(bool(done));
  CHECK(done.error().message.find("out-of-bounds global read of 4 bytes at 0x40") == 0);
  CHECK(done.error().message.find("line 55 of stray") != std::string::npos);
  CHECK_FALSE(bool(f.device->isIdle(stream)));
  CHECK_FALSE(bool(f.device->allocate(16)));
  CHECK_FALSE(bool(f.device->createStream(StreamPriority::High)));
}

TEST_CASE("what cannot be launched is said at the call and does not end the device") {
  Fixture f;
  StreamId stream = f.stream(StreamPriority::Low);
  FunctionId step = f.function("step");
  auto tooLarge = f.device->launch(stream, step, shapeOf(1, 2048),
                                   Arguments(std::uint64_t{0}, std::uint32_t{0}).bytes());
  REQUIRE_FALSE(bool(tooLarge));
  CHECK(tooLarge.error().message ==
        "emulator: launch: launching step: 2048 threads in a block where 1024 are allowed");
  CHECK_FALSE(bool(f.device->launch(stream, step, shapeOf(1, 32), {})));
  CHECK_FALSE(bool(f.device->function(f.module, "nobody")));
  CHECK_FALSE(bool(f.device->copyToDevice(stream, 64, std::vector<std::byte>(8))));
  CHECK(bool(f.device->synchronize(stream)));
  CHECK(*f.device->residentBlocksPerSm(step, {128, 1, 1}, 0) == 2);
  CHECK(*f.device->residentBlocksPerSm(step, {2048, 1, 1}, 0) == 0);
  CHECK(*f.device->residentBlocksPerSm(step, {128, 1, 1}, 300000) == 0);
}

TEST_CASE("many host threads share the device") {
  Fixture f(3);
  FunctionId slow = f.function("slow");
  std::vector<std::thread> hosts;
  std::vector<std::uint32_t> counts(4);
  for (std::size_t i = 0; i < counts.size(); ++i)
    hosts.emplace_back([&, i] {
      auto stream = *f.device->createStream(i % 2 ? StreamPriority::High : StreamPriority::Low);
      auto counter = *f.device->allocate(4);
      bool good = bool(f.device->fill(stream, counter, std::byte{0}, 4));
      for (int n = 0; n < 20; ++n)
        good = good && bool(f.device->launch(stream, slow, shapeOf(5, 64),
                                             Arguments(counter, std::uint32_t{50}).bytes()));
      good = good && bool(f.device->copyToHost(
                         stream, std::as_writable_bytes(std::span(&counts[i], 1)), counter));
      good = good && bool(f.device->synchronize(stream)) && bool(f.device->destroyStream(stream));
      if (!good)
        counts[i] = ~0u;
    });
  for (std::thread &each : hosts)
    each.join();
  CHECK(counts == std::vector<std::uint32_t>(4, 100));
}
