// A library in place of libnvJitLink.so.13: it links one PTX to the machine code that the emulated
// driver loads.
#include "../driver/machine_code.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

struct Link {
  std::string code;
};

extern "C" {

int __nvJitLinkCreate_13_0(Link **link, std::uint32_t, const char **) {
  *link = new Link;
  return 0;
}
int __nvJitLinkAddData_13_0(Link *link, int kind, const void *data, std::size_t bytes,
                            const char *) {
  constexpr int ptx = 2;
  if (kind != ptx || !link->code.empty())
    return 1;
  link->code = tally::preload_driver::machineCodeOf({static_cast<const char *>(data), bytes});
  return 0;
}
int __nvJitLinkComplete_13_0(Link *link) { return link->code.empty() ? 1 : 0; }
int __nvJitLinkGetLinkedCubinSize_13_0(Link *link, std::size_t *bytes) {
  *bytes = link->code.size();
  return 0;
}
int __nvJitLinkGetLinkedCubin_13_0(Link *link, void *to) {
  std::memcpy(to, link->code.data(), link->code.size());
  return 0;
}
int __nvJitLinkDestroy_13_0(Link **link) {
  delete *link;
  *link = nullptr;
  return 0;
}

} // extern "C"
