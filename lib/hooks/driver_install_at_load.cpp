// The driver-level hook of a module that is linked with the hooks: as it is loaded.
#include "driver_hook.h"
#include "settings.h"

#include <cstdlib>
#include <string_view>

namespace {

/// Settings are not read yet: a program may still set them.
bool isDisabled() {
  const char *setting = std::getenv("TALLY_DISABLE");
  return setting && std::string_view(setting) == "1";
}

/// Before the module's other initializers.
__attribute__((constructor(101))) void install() {
  if (!isDisabled() && !tally::hooks::isLedByPreload())
    tally::hooks::installDriverHook();
}

} // namespace
