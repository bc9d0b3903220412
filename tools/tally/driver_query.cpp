#include "driver_query.h"

#include "child_answer.h"

#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <link.h>

namespace tally::launcher {

namespace {

using namespace std::chrono_literals;

// Types and numbers of the driver's interface, so that builds without CUDA can query it too.
using Status = int;
constexpr int computeCapabilityMajor = 75, computeCapabilityMinor = 76;

void say(const std::string &line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

template <class Function> Function *find(void *library, const char *name) {
  return reinterpret_cast<Function *>(dlsym(library, name));
}

void sayDevices(void *driver) {
  auto *count = find<Status(int *)>(driver, "cuDeviceGetCount");
  auto *get = find<Status(int *, int)>(driver, "cuDeviceGet");
  auto *name = find<Status(char *, int, int)>(driver, "cuDeviceGetName");
  auto *attribute = find<Status(int *, int, int)>(driver, "cuDeviceGetAttribute");
  int devices = 0;
  if (!count || !get || !name || !attribute || count(&devices) != 0)
    return;
  for (int i = 0; i < devices; ++i) {
    int device = 0, major = 0, minor = 0;
    char text[256] = "?";
    if (get(&device, i) != 0)
      continue;
    name(text, sizeof text, device);
    attribute(&major, computeCapabilityMajor, device);
    attribute(&minor, computeCapabilityMinor, device);
    say("device " + std::to_string(major) + " " + std::to_string(minor) + " " + text);
  }
}

void sayInit(void *driver) {
  auto *init = find<Status(unsigned)>(driver, "cuInit");
  if (!init)
    return;
  Status status = init(0);
  auto *name = find<Status(Status, const char **)>(driver, "cuGetErrorName");
  const char *text = nullptr;
  if (status != 0 && name)
    name(status, &text);
  say("init " + std::to_string(status) + " " + (text ? text : ""));
  if (status == 0)
    sayDevices(driver);
}

int sayAll(bool withDevices) {
  // Queries the driver without Tally, even if Tally is preloaded here.
  setenv("TALLY_DISABLE", "1", 1);
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!driver) {
    const char *why = dlerror();
    say(std::string("missing ") + (why ? why : "unknown"));
    return 0;
  }
  link_map *place = nullptr;
  if (dlinfo(driver, RTLD_DI_LINKMAP, static_cast<void *>(&place)) == 0 && place)
    say(std::string("path ") + place->l_name);
  if (auto *get = find<Status(int *)>(driver, "cuDriverGetVersion")) {
    int version = 0;
    if (get(&version) == 0)
      say("version " + std::to_string(version));
  }
  if (withDevices)
    sayInit(driver);
  return 0;
}

/// Returns the part of `text` up to the next blank and removes both from `text`.
std::string takePart(std::string_view &text) {
  std::size_t end = std::min(text.find(' '), text.size());
  std::string part(text.substr(0, end));
  text.remove_prefix(std::min(end + 1, text.size()));
  return part;
}

void readLine(std::string_view line, DriverFacts &facts) {
  std::string word = takePart(line);
  auto number = [&] { return std::atoi(takePart(line).c_str()); };
  if (word == "missing") {
    facts.loadError = line;
  } else if (word == "path") {
    facts.path = line;
  } else if (word == "version") {
    facts.version = number();
  } else if (word == "init") {
    facts.initError = number();
    facts.initErrorName = line;
  } else if (word == "device") {
    DriverDevice device;
    device.major = number();
    device.minor = number();
    device.name = line;
    facts.devices.push_back(device);
  }
}

} // namespace

DriverFacts readDriverAnswer(std::string_view text) {
  DriverFacts facts;
  for (std::size_t end; (end = text.find('\n')) != std::string_view::npos;) {
    readLine(text.substr(0, end), facts);
    text.remove_prefix(end + 1);
  }
  return facts;
}

DriverFacts queryDriver() {
  ChildAnswer answer = askChild([] { return sayAll(false); }, 5s);
  if (answer.fault.empty())
    answer = askChild([] { return sayAll(true); }, 20s);
  DriverFacts facts = readDriverAnswer(answer.text);
  facts.fault = answer.fault;
  return facts;
}

} // namespace tally::launcher
