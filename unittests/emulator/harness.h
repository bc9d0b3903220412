// A machine with a loaded module and typed buffers, for the emulator's tests.
#ifndef TALLY_UNITTESTS_EMULATOR_HARNESS_H
#define TALLY_UNITTESTS_EMULATOR_HARNESS_H

#include "tally/emulator/machine.h"
#include "tally/ptx/syntax/parser.h"

#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <vector>

namespace tally::emulator {

inline const std::string header = ".version 8.0\n.target sm_90\n.address_size 64\n";

class Harness {
public:
  explicit Harness(const std::string &text) {
    auto parsed = ptx::parse(text);
    if (auto *wrong = std::get_if<ptx::Diagnostic>(&parsed))
      FAIL("parse: " << wrong->message << " at byte " << wrong->offset << ": "
                     << text.substr(wrong->offset, 60));
    auto loaded = machine.load(std::get<ptx::Module>(parsed));
    REQUIRE_MESSAGE(bool(loaded), loaded.error().message);
    program = *loaded;
  }

  template <class T> DevicePtr upload(const std::vector<T> &values) {
    auto pointer = machine.allocate(values.size() * sizeof(T));
    REQUIRE(bool(pointer));
    auto view = machine.view(*pointer, values.size() * sizeof(T));
    REQUIRE(bool(view));
    std::memcpy(view->data(), values.data(), view->size());
    return *pointer;
  }
  template <class T> std::vector<T> download(DevicePtr pointer, std::size_t count) {
    auto view = machine.view(pointer, count * sizeof(T));
    REQUIRE_MESSAGE(bool(view), view.error().message);
    std::vector<T> values(count);
    std::memcpy(values.data(), view->data(), view->size());
    return values;
  }

  template <class... Args>
  std::optional<Fault> run(const std::string &kernel, const LaunchShape &shape,
                           const Schedule &schedule, const Args &...args) {
    std::vector<std::byte> parameters;
    (append(parameters, args), ...);
    return machine.run(*program, kernel, shape, parameters, schedule);
  }
  /// Runs the kernel in the plain order; it must not fault.
  template <class... Args>
  void ok(const std::string &kernel, const LaunchShape &shape, const Args &...args) {
    auto fault = run(kernel, shape, {}, args...);
    REQUIRE_MESSAGE(!fault, fault->message);
  }

  template <class T> static void append(std::vector<std::byte> &to, const T &value) {
    to.resize((to.size() + alignof(T) - 1) / alignof(T) * alignof(T) + sizeof(T));
    std::memcpy(to.data() + to.size() - sizeof(T), &value, sizeof(T));
  }

  Machine machine;
  std::shared_ptr<const Program> program;
};

inline LaunchShape shapeOf(std::uint32_t blocks, std::uint32_t threads, std::uint32_t shared = 0) {
  return {{blocks, 1, 1}, {threads, 1, 1}, shared};
}

} // namespace tally::emulator

#endif
