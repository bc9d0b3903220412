// The runtime's interface over the fake device, with all its threads.
#ifndef TALLY_UNITTESTS_RUNTIME_OPENED_H
#define TALLY_UNITTESTS_RUNTIME_OPENED_H

#include "program.h"

#include "tally/runtime/runtime.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tally::runtime {

struct Opened {
  FakeDevice *device = nullptr;
  std::unique_ptr<Runtime> runtime;
  bundle::Bundle bundle;
  LoadedModule module{};
  std::vector<Kernel> kernels; ///< in the order of mixNames

  Client client(Class clientClass) const { return *runtime->createClient(clientClass); }
  /// Creates a stream of a new client.
  Stream stream(Class clientClass) const { return *runtime->createStream(client(clientClass)); }
};

inline Opened openFake(const RuntimeOptions &options = {}) {
  auto device = std::make_unique<FakeDevice>(3);
  Opened opened;
  opened.device = device.get();
  opened.bundle = mixBundle(*device);
  device->startThread();
  opened.runtime = std::move(*Runtime::openOn(std::move(device), options));
  opened.module = *opened.runtime->load(opened.bundle);
  for (const std::string &name : mixNames)
    opened.kernels.push_back(*opened.runtime->kernel(opened.module, name));
  return opened;
}

template <class T> std::string errorOf(const Result<T> &result) {
  return result ? std::string("no error") : result.error().message;
}

} // namespace tally::runtime

#endif
