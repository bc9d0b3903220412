#include "work/link_inputs.h"

namespace tally::hooks {

void LinkInputs::add(const void *link, bool isPtx, std::string_view data) {
  std::unique_lock lock(mutex);
  Inputs &inputs = byLink[link];
  if (++inputs.count == 1 && isPtx)
    inputs.ptx = data.substr(0, data.find_last_not_of('\0') + 1); // npos + 1 is 0
}

std::string LinkInputs::onlyPtx(const void *link) const {
  std::unique_lock lock(mutex);
  auto known = byLink.find(link);
  return known != byLink.end() && known->second.count == 1 ? known->second.ptx : std::string();
}

void LinkInputs::forget(const void *link) {
  std::unique_lock lock(mutex);
  byLink.erase(link);
}

} // namespace tally::hooks
