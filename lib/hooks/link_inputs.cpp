#include "link_inputs.h"

#include <utility>

namespace tally::hooks {

void LinkInputs::addPtx(const void *link, std::string text) {
  while (!text.empty() && text.back() == '\0')
    text.pop_back();
  std::unique_lock lock(mutex);
  Inputs &inputs = byLink[link];
  if (++inputs.count == 1)
    inputs.ptx = std::move(text);
}

void LinkInputs::addOther(const void *link) {
  std::unique_lock lock(mutex);
  ++byLink[link].count;
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
