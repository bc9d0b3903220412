// The CUDA driver's own functions, where the driver's exports are redirected to the hooks.
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
  /// Adds a function; call it only before the object is shared.
  void add(std::string_view name, void *function) { functions.emplace_back(name, function); }
  /// The driver's own function exported as `name`, if the export is redirected; else nullptr.
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

  /// Why some launches of the process may bypass the hooks, for its whole life; nullptr: none does.
  /// Thread-safe.
  const char *whyNotAll() const { return reason.load(std::memory_order_acquire); }
  /// Sets the reason unless there is one; returns whether it was set. Thread-safe.
  bool notAll(const char *why) const {
    const char *none = nullptr;
    return reason.compare_exchange_strong(none, why);
  }

private:
  std::vector<std::pair<std::string, void *>> functions;
  mutable std::atomic<const char *> reason{nullptr};
};

/// The process's object, set once by the first module of the process that has the hooks, and never
/// destroyed; nullptr: the driver's exports are not redirected. One for all modules, as
/// tallySharedHooks4 is. Change its name with the layout of DriverExports.
extern __attribute__((visibility("default"))) std::atomic<const DriverExports *> tallySharedDriver1;

/// The process's object, or nullptr. Thread-safe.
inline const DriverExports *driverExports() {
  return tallySharedDriver1.load(std::memory_order_acquire);
}

} // namespace tally::runtime

#endif
