// The functions without a body that CUDA's device code calls: vprintf, malloc, free, __assertfail
// (CUDA C++ Programming Guide, "Formatted Output", "Dynamic Global Memory Allocation",
// "Assertion").
#include "library_calls.h"

#include "access.h"
#include "warp_scheduler.h"

#include <fmt/format.h>

#include <bit>
#include <cstdio>
#include <cstring>
#include <optional>

namespace tally::emulator {

namespace {

constexpr std::uint32_t longestString = 1u << 16;

std::byte *placeOf(Warp &warp, const CallArgument &argument, std::uint32_t lane) {
  if (argument.inRegister)
    return warp.row<std::byte>(argument.offset) + std::size_t{lane} * argument.bytes;
  return warp.local.data() + std::size_t{lane} * warp.localStride + warp.group().local +
         argument.offset;
}

std::uint64_t argumentOf(Warp &warp, const Op &op, std::uint32_t lane, std::size_t index,
                         std::uint32_t bytes) {
  const CallSite &site = warp.block->program->calls[op.extra];
  std::uint64_t value = 0;
  std::memcpy(&value, placeOf(warp, site.arguments[index], lane), bytes);
  return value;
}

template <class T> void setResult(Warp &warp, const Op &op, std::uint32_t lane, T value) {
  const CallSite &site = warp.block->program->calls[op.extra];
  if (!site.results.empty())
    std::memcpy(placeOf(warp, site.results[0], lane), &value, sizeof(T));
}

/// Returns the string at a generic address; nothing after a fault.
std::optional<std::string> stringAt(Warp &warp, const Op &op, std::uint32_t lane,
                                    std::uint64_t address) {
  std::string text;
  for (; text.size() < longestString; ++address) {
    std::uint64_t host = hostRange(warp, op, lane, Space::Generic, address, 1, AccessKind::Read);
    if (!host)
      return std::nullopt;
    char next = *reinterpret_cast<const char *>(host);
    if (!next)
      break;
    text += next;
  }
  return text;
}

/// One printf of one lane: walks the format and takes the values from the argument buffer, where
/// each value lies at its natural alignment.
class Print {
public:
  Print(Warp &warp, const Op &op, std::uint32_t lane, std::uint64_t arguments)
      : warp(warp), op(op), lane(lane), next(arguments) {}

  /// Returns nothing after a fault.
  std::optional<std::string> format(std::string_view text) {
    for (std::size_t i = 0; i < text.size();) {
      if (text[i] != '%') {
        out += text[i++];
        continue;
      }
      std::size_t end = text.find_first_not_of("-+ #0123456789.*hlLjzt", i + 1);
      if (end == std::string_view::npos)
        break;
      if (!convert(text.substr(i + 1, end - i - 1), text[end]))
        return std::nullopt;
      i = end + 1;
    }
    return out;
  }
  std::int32_t conversions = 0;

private:
  template <class T> bool take(T &value) {
    next = (next + sizeof(T) - 1) / sizeof(T) * sizeof(T);
    std::uint64_t host =
        hostRange(warp, op, lane, Space::Generic, next, sizeof(T), AccessKind::Read);
    if (!host)
      return false;
    std::memcpy(&value, reinterpret_cast<const void *>(host), sizeof(T));
    next += sizeof(T);
    return true;
  }

  template <class T> void append(const std::string &specification, T value) {
    int needed = std::snprintf(nullptr, 0, specification.c_str(), value);
    if (needed <= 0 || static_cast<std::uint32_t>(needed) > longestString)
      return;
    std::size_t begin = out.size();
    out.resize(begin + static_cast<std::size_t>(needed) + 1);
    std::snprintf(out.data() + begin, static_cast<std::size_t>(needed) + 1, specification.c_str(),
                  value);
    out.pop_back();
  }

  bool appendInteger(const std::string &specification, std::string_view length, char conversion) {
    bool isWide = length.find_first_of("lLjzt") != std::string_view::npos;
    if (isWide) {
      std::int64_t value = 0;
      if (!take(value))
        return false;
      append(specification + "ll" + conversion, static_cast<long long>(value));
      return true;
    }
    std::int32_t value = 0;
    if (!take(value))
      return false;
    append(specification + std::string(length) + conversion, value);
    return true;
  }

  bool appendString(const std::string &specification) {
    std::uint64_t address = 0;
    if (!take(address))
      return false;
    if (!address) {
      append(specification + 's', "(null)");
      return true;
    }
    auto text = stringAt(warp, op, lane, address);
    if (text)
      append(specification + 's', text->c_str());
    return text.has_value();
  }

  bool convert(std::string_view flags, char conversion) {
    if (conversion == '%') {
      out += '%';
      return true;
    }
    ++conversions;
    std::string specification = "%";
    std::size_t lengthBegin = std::min(flags.find_first_of("hlLjzt"), flags.size());
    for (char each : flags.substr(0, lengthBegin)) {
      std::int32_t width = 0;
      if (each == '*' && !take(width))
        return false;
      if (each == '*')
        specification += std::to_string(width);
      else
        specification += each;
    }
    if (std::strchr("diouxXc", conversion))
      return appendInteger(specification, flags.substr(lengthBegin), conversion);
    if (conversion == 's')
      return appendString(specification);
    std::uint64_t bits = 0;
    if (!take(bits))
      return false;
    if (std::strchr("aAeEfFgG", conversion))
      append(specification + conversion, std::bit_cast<double>(bits));
    else if (conversion == 'p')
      append(specification + 'p', reinterpret_cast<const void *>(bits));
    return true;
  }

  Warp &warp;
  const Op &op;
  std::uint32_t lane;
  std::uint64_t next;
  std::string out;
};

Status print(Warp &warp, const Op &op, std::uint32_t mask) {
  const Environment &environment = warp.block->environment;
  for (; mask; mask &= mask - 1) {
    auto lane = static_cast<std::uint32_t>(std::countr_zero(mask));
    std::int32_t conversions = 0;
    if (environment.print) {
      auto text = stringAt(warp, op, lane, argumentOf(warp, op, lane, 0, 8));
      if (!text)
        return Status::Fault;
      Print one(warp, op, lane, argumentOf(warp, op, lane, 1, 8));
      auto whole = one.format(*text);
      if (!whole)
        return Status::Fault;
      environment.print(environment.printContext, *whole);
      conversions = one.conversions;
    }
    setResult(warp, op, lane, conversions);
  }
  return Status::Next;
}

/// Without free memory the result is null, as CUDA says.
Status allocate(Warp &warp, const Op &op, std::uint32_t mask) {
  for (; mask; mask &= mask - 1) {
    auto lane = static_cast<std::uint32_t>(std::countr_zero(mask));
    auto address = warp.block->environment.globalMemory->allocate(argumentOf(warp, op, lane, 0, 8),
                                                                  unwrittenByte);
    setResult(warp, op, lane, address ? *address : std::uint64_t{0});
  }
  return Status::Next;
}

Status release(Warp &warp, const Op &op, std::uint32_t mask) {
  for (; mask; mask &= mask - 1) {
    auto lane = static_cast<std::uint32_t>(std::countr_zero(mask));
    std::uint64_t address = argumentOf(warp, op, lane, 0, 8);
    if (!address)
      continue;
    if (auto done = warp.block->environment.globalMemory->free(address); !done)
      return raise(warp, op, lane, FaultKind::OutOfBounds, done.error().message);
  }
  return Status::Next;
}

Status failAssertion(Warp &warp, const Op &op, std::uint32_t mask) {
  auto lane = static_cast<std::uint32_t>(std::countr_zero(mask));
  const CallSite &site = warp.block->program->calls[op.extra];
  std::string what = "a call of __assertfail";
  if (warp.block->environment.print && site.arguments.size() == 5) {
    auto message = stringAt(warp, op, lane, argumentOf(warp, op, lane, 0, 8));
    auto file = message ? stringAt(warp, op, lane, argumentOf(warp, op, lane, 1, 8)) : message;
    if (!file)
      return Status::Fault;
    what = fmt::format("{}:{}: assertion `{}` failed", *file, argumentOf(warp, op, lane, 2, 4),
                       *message);
  }
  return raise(warp, op, lane, FaultKind::Assertion, what);
}

} // namespace

Handler libraryCall(std::string_view name, std::size_t arguments) {
  if (name == "vprintf" && arguments == 2)
    return print;
  if (name == "malloc" && arguments == 1)
    return allocate;
  if (name == "free" && arguments == 1)
    return release;
  return name == "__assertfail" ? failAssertion : nullptr;
}

} // namespace tally::emulator
