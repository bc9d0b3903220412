#include "argument.h"

#include "random.h"

#include <fmt/format.h>

#include <bit>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>

namespace tally::verify {

namespace {

template <class T> bool parseWhole(std::string_view text, T &value) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

std::vector<std::byte> lowBytes(std::uint64_t bits, std::size_t size) {
  std::vector<std::byte> bytes(size);
  std::memcpy(bytes.data(), &bits, size);
  return bytes;
}

/// Returns the number's bits in `type`; nullopt where `text` is no number or out of range.
std::optional<std::uint64_t> parseNumber(ElementType type, std::string_view text) {
  if (isFloat(type)) {
    std::string copy(text);
    char *end = nullptr;
    double value = std::strtod(copy.c_str(), &end);
    if (copy.empty() || end != copy.c_str() + copy.size())
      return std::nullopt;
    return type == ElementType::F32 ? std::bit_cast<std::uint32_t>(std::strtof(copy.c_str(), &end))
                                    : std::bit_cast<std::uint64_t>(value);
  }
  unsigned bits = 8 * static_cast<unsigned>(sizeOf(type));
  if (isSigned(type)) {
    std::int64_t value = 0;
    if (!parseWhole(text, value) || (value << (64 - bits)) >> (64 - bits) != value)
      return std::nullopt;
    return static_cast<std::uint64_t>(value);
  }
  std::uint64_t value = 0;
  if (!parseWhole(text, value) || (bits < 64 && value >> bits != 0))
    return std::nullopt;
  return value;
}

Result<ArgumentSpec> parseBytes(std::string_view spec, std::string_view digits) {
  ArgumentSpec argument;
  if (digits.empty() || digits.size() % 2 != 0)
    return Error{fmt::format("argument '{}': bytes takes two hexadecimal digits a byte", spec)};
  for (std::size_t i = 0; i < digits.size(); i += 2) {
    unsigned value = 0;
    auto [end, error] = std::from_chars(digits.data() + i, digits.data() + i + 2, value, 16);
    if (error != std::errc() || end != digits.data() + i + 2)
      return Error{
          fmt::format("argument '{}': '{}' is not a hexadecimal byte", spec, digits.substr(i, 2))};
    argument.scalar.push_back(static_cast<std::byte>(value));
  }
  return argument;
}

/// Splits `text` at its first colon; the second part is empty without a colon.
std::pair<std::string_view, std::string_view> cut(std::string_view text) {
  std::size_t colon = text.find(':');
  if (colon == std::string_view::npos)
    return {text, {}};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

Result<ArgumentSpec> parsePointer(std::string_view spec, std::string_view rest) {
  auto [typeText, afterType] = cut(rest);
  auto [countText, init] = cut(afterType);
  BufferSpec buffer;
  auto type = elementTypeFromName(typeText);
  if (!type)
    return Error{
        fmt::format("argument '{}': '{}' is no element type (i8 … u64, f32, f64)", spec, typeText)};
  buffer.type = *type;
  if (!parseWhole(countText, buffer.count) || buffer.count == 0 ||
      buffer.count > maxBufferBytes / sizeOf(*type))
    return Error{fmt::format("argument '{}': '{}' is no element count from 1 to {}", spec,
                             countText, maxBufferBytes / sizeOf(*type))};
  if (init == "zero") {
    buffer.fill = Fill::Zero;
  } else if (init == "iota") {
    buffer.fill = Fill::Iota;
  } else if (init.starts_with("random:") && parseWhole(init.substr(7), buffer.seed)) {
    buffer.fill = Fill::Random;
  } else if (init.starts_with('@') && init.size() > 1) {
    buffer.fill = Fill::File;
    buffer.file = init.substr(1);
  } else {
    return Error{
        fmt::format("argument '{}': '{}' is none of zero, iota, random:SEED, @FILE", spec, init)};
  }
  ArgumentSpec argument;
  argument.buffer = std::move(buffer);
  return argument;
}

std::uint64_t randomElement(ElementType type, Random &random) {
  std::uint64_t bits = random.next();
  // A double holds 53 bits, and rounding to float keeps both ends of [-1, 1].
  double unit = static_cast<double>(bits >> 11) * 0x1p-52 - 1.0;
  if (type == ElementType::F32)
    return std::bit_cast<std::uint32_t>(static_cast<float>(unit));
  return type == ElementType::F64 ? std::bit_cast<std::uint64_t>(unit) : bits;
}

std::uint64_t iotaElement(ElementType type, std::size_t index) {
  if (type == ElementType::F32)
    return std::bit_cast<std::uint32_t>(static_cast<float>(index));
  return type == ElementType::F64 ? std::bit_cast<std::uint64_t>(static_cast<double>(index))
                                  : index;
}

Result<std::vector<std::byte>> fileBytes(const BufferSpec &spec, std::size_t size) {
  std::ifstream stream(spec.file, std::ios::binary);
  if (!stream)
    return Error{fmt::format("cannot read '{}': {}", spec.file, std::strerror(errno))};
  std::string content(size + 1, '\0'); // one more, to see that there is no more
  stream.read(content.data(), static_cast<std::streamsize>(content.size()));
  if (static_cast<std::size_t>(stream.gcount()) != size)
    return Error{fmt::format("'{}' does not hold exactly the {} bytes of {} {} elements", spec.file,
                             size, spec.count, name(spec.type))};
  std::vector<std::byte> bytes(size);
  std::memcpy(bytes.data(), content.data(), size);
  return bytes;
}

} // namespace

Result<ArgumentSpec> parseArgument(std::string_view spec) {
  auto [kind, rest] = cut(spec);
  if (kind == "ptr")
    return parsePointer(spec, rest);
  if (kind == "bytes")
    return parseBytes(spec, rest);
  auto type = elementTypeFromName(kind);
  if (!type)
    return Error{
        fmt::format("argument '{}': '{}' is none of i8 … u64, f32, f64, bytes, ptr", spec, kind)};
  auto bits = parseNumber(*type, rest);
  if (!bits)
    return Error{fmt::format("argument '{}': '{}' is no {} value", spec, rest, name(*type))};
  ArgumentSpec argument;
  argument.scalar = lowBytes(*bits, sizeOf(*type));
  return argument;
}

Result<std::vector<std::byte>> initialBytes(const BufferSpec &spec) {
  std::size_t size = sizeOf(spec.type);
  if (spec.fill == Fill::File)
    return fileBytes(spec, size * spec.count);
  std::vector<std::byte> bytes(size * spec.count);
  if (spec.fill == Fill::Zero)
    return bytes;
  Random random(spec.seed);
  for (std::size_t i = 0; i < spec.count; ++i) {
    std::uint64_t bits =
        spec.fill == Fill::Iota ? iotaElement(spec.type, i) : randomElement(spec.type, random);
    std::memcpy(bytes.data() + i * size, &bits, size);
  }
  return bytes;
}

} // namespace tally::verify
