// The CUDA driver's own functions, where what the driver exports leads to the hooks.
#ifndef TALLY_LIB_RUNTIME_DEVICE_DRIVER_EXPORTS_H
#define TALLY_LIB_RUNTIME_DEVICE_DRIVER_EXPORTS_H

#include <algorithm>
#include <atomic>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tally::runtime {

class DriverExports {
public:
  /// To be called for each function before the object is shared.
  void add(std::string_view name, void *function) { functions.emplace_back(name, function); }
  /// The driver's own function of that exported name, if it is led to the hooks; else nullptr.
  void *find(std::string_view name) const {
    auto found = std::find_if(functions.begin(), functions.end(),
                              [&](auto &each) { return each.first == name; });
    return found == functions.end() ? nullptr : found->second;
  }
  bool isEmpty() const { return functions.empty(); }
  bool holds(const void *function) const {
    return std::any_of(functions.begin(), functions.end(),
                       [&](auto &each) { return each.second == function; });
  }

  /// Why launches of the process may pass unseen, for its whole life; nullptr: none does.
  /// Thread-safe.
  const char *whyNotAll() const { return reason.load(std::memory_order_acquire); }
  /// The first reason stays. True: it is this one. Thread-safe.
  bool notAll(const char *why) const {
    const char *none = nullptr;
    return reason.compare_exchange_strong(none, why);
  }

private:
  std::vector<std::pair<std::string, void *>> functions;
  mutable std::atomic<const char *> reason{nullptr};
};

/// The process's, set once by the first of its modules that has the hooks and never destroyed;
/// nullptr: the driver's exports are as they were. One for all modules, as tallySharedHooks4 is;
/// its name changes with the layout of DriverExports.
extern __attribute__((visibility("default"))) std::atomic<const DriverExports *> tallySharedDriver1;

/// The process's, or nullptr. Thread-safe.
inline const DriverExports *driverExports() {
  return tallySharedDriver1.load(std::memory_order_acquire);
}

} // namespace tally::runtime

#endif
