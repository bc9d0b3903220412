// Arguments of a kernel in the command line's form: `i32:V`, `ptr:TYPE:COUNT:INIT`, …
#ifndef TALLY_VERIFY_ARGUMENT_H
#define TALLY_VERIFY_ARGUMENT_H

#include "element.h"

#include "tally/support/result.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tally::verify {

/// Initial contents of a buffer. Iota: element i is i, in the element's type. Random: integers over
/// the type's whole range, floats in [-1, 1]; the same on every machine.
enum class Fill : std::uint8_t { Zero, Iota, Random, File };

struct BufferSpec {
  ElementType type = ElementType::U32;
  std::size_t count = 0; ///< elements
  Fill fill = Fill::Zero;
  std::uint64_t seed = 0; ///< for Random
  std::string file;       ///< for File: raw elements, little-endian, exactly `count` of them
};

/// One argument: a scalar's bytes, or a buffer whose address is passed.
struct ArgumentSpec {
  std::vector<std::byte> scalar;
  std::optional<BufferSpec> buffer;
};

/// The largest buffer: 1 GiB.
inline constexpr std::size_t maxBufferBytes = std::size_t{1} << 30;

/// Reads SPEC: `TYPE:VALUE` with TYPE one of i8 … f64, `bytes:HEX` for a parameter passed by value
/// (two digits a byte, in order of addresses), or `ptr:TYPE:COUNT:INIT` with INIT `zero`, `iota`,
/// `random:SEED` or `@FILE`. The error names the wrong part of SPEC.
Result<ArgumentSpec> parseArgument(std::string_view spec);

/// Returns the buffer's initial contents. Fails where the file cannot be read or has another size.
Result<std::vector<std::byte>> initialBytes(const BufferSpec &spec);

} // namespace tally::verify

#endif
