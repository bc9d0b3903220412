// Bundle → bytes. The format is described in bundle_reader.h.
#ifndef TALLY_BUNDLE_BUNDLE_WRITER_H
#define TALLY_BUNDLE_BUNDLE_WRITER_H

#include "tally/bundle/bundle.h"
#include "tally/support/result.h"

#include <string>

namespace tally::bundle {

/// Returns the bytes of a bundle file; read() gives the same bundle back. Equal bundles give equal
/// bytes. Parameters outside of their kernel's parameter space are a bug of the caller (assert).
std::string write(const Bundle &bundle);

/// Writes a bundle file atomically: renames a temporary file beside it, so that a reader never sees
/// half a bundle. Errors name the path and the system's reason.
Result<void> writeFile(const std::string &path, const Bundle &bundle);

} // namespace tally::bundle

#endif
