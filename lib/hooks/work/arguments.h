// The arguments of a launch that is made later than the program's call.
#ifndef TALLY_LIB_HOOKS_WORK_ARGUMENTS_H
#define TALLY_LIB_HOOKS_WORK_ARGUMENTS_H

#include "base/shared_bytes.h"

#include "tally/bundle/bundle.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

namespace tally::hooks {

using Parameters = std::vector<bundle::Parameter>;

/// Copies the arguments, one for each parameter, to the offsets of the parameters.
inline runtime::SharedBytes copyArguments(const Parameters &parameters, void *const *arguments) {
  std::size_t size = 0;
  for (const bundle::Parameter &each : parameters)
    size = std::max<std::size_t>(size, each.offset + each.size);
  return runtime::SharedBytes(size, [&](std::byte *to) {
    for (std::size_t i = 0; i < parameters.size(); ++i)
      std::memcpy(to + parameters[i].offset, arguments[i], parameters[i].size);
  });
}

/// Pointers to arguments at the offsets of the parameters, for a call that copies the arguments and
/// does not write to them. There is space for one more.
inline std::vector<void *> pointersTo(const Parameters &parameters, const std::byte *bytes) {
  std::vector<void *> pointers;
  pointers.reserve(parameters.size() + 1);
  for (const bundle::Parameter &each : parameters)
    pointers.push_back(const_cast<std::byte *>(bytes) + each.offset);
  return pointers;
}

} // namespace tally::hooks

#endif
