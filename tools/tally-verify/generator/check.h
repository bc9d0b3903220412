// Checks one generated kernel: parses and rewrites it, checks the structure, runs the kernel and
// each variant under requests to yield at every poll and random schedules, and compares the
// results.
#ifndef TALLY_VERIFY_GENERATOR_CHECK_H
#define TALLY_VERIFY_GENERATOR_CHECK_H

#include "emitter.h"

#include "../verify.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tally::verify {

enum class Stage : std::uint8_t {
  Input,       ///< the kernel does not parse, or its structure is broken once rewritten
  UsersKernel, ///< it faults, or its result depends on the schedule: the generator's bug
  Variant
};

struct CheckFailure {
  Stage stage = Stage::Input;
  Kind kind = Kind::Slice; ///< for Variant
  std::string message;
  /// Whether `other` failed at the same stage and kind, and both by a wrong result or both
  /// otherwise.
  bool like(const CheckFailure &other) const {
    auto differs = [](const CheckFailure &each) {
      return each.message.find("expected") != std::string::npos;
    };
    return stage == other.stage && (stage != Stage::Variant || kind == other.kind) &&
           differs(*this) == differs(other);
  }
};

struct KernelCheck {
  std::vector<KindReport> kinds;    ///< reports of the kinds that were run or refused
  std::vector<std::string> reasons; ///< per kind: the reason of a refusal, or empty
  std::optional<CheckFailure> failure;
};

struct CheckOptions {
  std::vector<Kind> kinds{allKinds.begin(), allKinds.end()};
  std::uint32_t randomPlans = 4;
  std::uint32_t userSchedules = 2;
  /// Changes the module after it was rewritten; for tests that plant a bug.
  std::function<void(std::string &text)> plant;
  std::string coding; ///< see readInput()
};

KernelCheck check(const GeneratedKernel &kernel, std::uint64_t seed, const CheckOptions &options);

} // namespace tally::verify

#endif
