// The inputs of links at run time (cuLink..., nvJitLink...): variants can be made of machine code
// that is linked from a single PTX text.
#ifndef TALLY_LIB_HOOKS_WORK_LINK_INPUTS_H
#define TALLY_LIB_HOOKS_WORK_LINK_INPUTS_H

#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

namespace tally::hooks {

/// Thread-safe.
class LinkInputs {
public:
  /// Adds an input of the link: PTX, without zero bytes at its end, or an input of another kind
  /// (machine code, a library, an intermediate form).
  void add(const void *link, bool isPtx, std::string_view data);
  /// The link's PTX; empty where the link has more inputs, or an input of another kind.
  std::string onlyPtx(const void *link) const;
  /// The handle names no link any more.
  void forget(const void *link);

private:
  struct Inputs {
    unsigned count = 0;
    std::string ptx;
  };
  mutable std::mutex mutex;
  std::unordered_map<const void *, Inputs> byLink;
};

} // namespace tally::hooks

#endif
