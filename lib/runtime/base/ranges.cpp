#include "base/ranges.h"

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define TALLY_HAVE_NVTX 1
#endif

namespace tally::runtime {

#ifdef TALLY_HAVE_NVTX

namespace {

nvtxDomainHandle_t domain() {
  // NVTX returns a null domain when there is no tool.
  static const nvtxDomainHandle_t made = nvtxDomainCreateA("tally");
  return made;
}

} // namespace

bool rangesAreOn() { return domain() != nullptr; }

std::uint64_t beginRange(RangeOf what, const std::string &name) {
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.colorType = NVTX_COLOR_ARGB;
  attributes.color = what == RangeOf::Request ? 0xffd04040u : 0xff4080d0u;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name.c_str();
  return nvtxDomainRangeStartEx(domain(), &attributes);
}

void endRange(std::uint64_t range) { nvtxDomainRangeEnd(domain(), range); }

#else

bool rangesAreOn() { return false; }
std::uint64_t beginRange(RangeOf, const std::string &) { return 0; }
void endRange(std::uint64_t) {}

#endif

} // namespace tally::runtime
