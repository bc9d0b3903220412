// embed_cpp BUNDLE [DEVICE [ARENA]]: the C++ interface as a server uses it: a policy of its own,
// typed launches, requests, errors, objects that are destroyed in any order; and, in an arena, the
// data that other processes see.
#include "tally/policies.h"
#include "tally/report.h"
#include "tally/tally.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <type_traits>

namespace {

std::atomic<int> asked{0};
struct Counting {
  static constexpr bool usesClients = true, limitsSms = false;
  tally::PriorityPolicy strict;
  tally::Decision decide(const tally::Snapshot &now) {
    ++asked;
    return strict.decide(now);
  }
};

template <class T> T must(tally::Result<T> &&result) {
  if (!result) {
    std::printf("embed_cpp: %s\n", result.error().message.c_str());
    std::exit(1);
  }
  if constexpr (!std::is_void_v<T>)
    return std::move(*result);
}
void expect(bool fine, const char *what) {
  if (!fine) {
    std::printf("embed_cpp: not so: %s\n", what);
    std::exit(1);
  }
}

/// A separate process that reads the arena.
void meetOthers(char **given) {
  tally::Options shared;
  shared.device = given[2];
  shared.usesArena = true;
  shared.arena = given[3]; // a file or a folder; left out: the default place
  tally::Runtime runtime = must(tally::Runtime::open(shared));
  tally::Client server = must(runtime.createClient(tally::Class::High, "server"));
  tally::ClientRequest request = must(server.beginRequest());
  tally::Report report = must(tally::Report::read(given[3]));
  expect(report.gpus() == 1 && report.clients(0) == 1, "the client is in the arena");
  tally_client_report client = report.client(0, 0);
  expect(client.client_class == TALLY_CLASS_HIGH && client.open_requests == 1, "with a request");
  expect(report.prometheus().find("server") != std::string::npos, "Prometheus is told its name");
}

} // namespace

int main(int count, char **given) {
  if (count < 2)
    return 2;
  tally::Options options;
  options.device = count > 2 ? given[2] : "emulator";
  options.policy = "sloth";
  expect(!tally::Runtime::open(options), "an unknown policy is an error");
  options.policy = Counting{};
  std::optional<tally::Runtime> runtime = must(tally::Runtime::open(options));
  tally::Module module = must(runtime->load(given[1]));
  expect(!module.kernel("none"), "an unknown kernel is an error");
  auto scaleAdd =
      must(module.function<tally::DevicePointer<float>, tally::DevicePointer<float>, float, int>(
          "scale_add"));
  std::vector<float> ones(1000, 1), values(1000, 2), more(1001);
  auto x = must(runtime->allocate<float>(1000));
  auto y = must(runtime->allocate<float>(1000));
  {
    tally::Client trainer = must(runtime->createClient(tally::Class::BestEffort, "trainer"));
    tally::Client server = must(runtime->createClient(tally::Class::High, "server"));
    tally::Stream background = must(trainer.createStream()), front = must(server.createStream());
    expect(!trainer.beginRequest(), "a best-effort client has no requests");
    expect(!front.copyToDevice(x, more), "a copy that is longer than its buffer is an error");
    must(front.copyToDevice(x, values));
    must(front.copyToDevice(y, ones));
    must(front.synchronize());
    must(background.launch(scaleAdd, tally::Shape(4, 256), x.device(), y.device(), 3, 1000));
    {
      tally::ClientRequest request = must(server.beginRequest());
      tally::ClientRequest kept = std::move(request);
      must(front.fill(y, 0));
      must(front.synchronize());
    }
    must(background.synchronize());
    must(front.copyToHost(values, x));
    must(front.synchronize());
  }
  expect(values.back() == 6 || values.back() == 7, "3 * 2 + 1, or + 0 where the fill came first");
  expect(asked > 0, "the policy is asked");
  expect(runtime->statistics().best_effort_launches == 1, "one launch was of best effort");
  expect(runtime->deviceInfo().sms != 0, "the device has SMs");
  runtime.reset(); // the module and the buffers keep it open
  expect(!!module.kernel("scale_add"), "the module is still there");
  if (count > 3)
    meetOthers(given);
  std::printf("embed_cpp: right\n");
}
