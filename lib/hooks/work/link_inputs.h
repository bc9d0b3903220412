// What a program links at run time (cuLink..., nvJitLink...): machine code that is linked of one
// PTX alone has variants made of that text.
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
  /// The link was given this: PTX, of which zero bytes at the end do not count, or something else
  /// (machine code, a library, an intermediate form).
  void add(const void *link, bool isPtx, std::string_view data);
  /// The PTX of which the link consists; empty where it consists of more, or of something else.
  std::string onlyPtx(const void *link) const;
  /// The handle means no link any more.
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
