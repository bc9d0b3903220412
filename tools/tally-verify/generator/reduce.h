// Makes a failing program smaller, as long as it fails.
#ifndef TALLY_VERIFY_GENERATOR_REDUCE_H
#define TALLY_VERIFY_GENERATOR_REDUCE_H

#include "program.h"

#include <cstdint>
#include <functional>

namespace tally::verify {

struct ReduceOptions {
  std::uint32_t maxAttempts = 4000; ///< calls of `fails`
};

/// Removes statements, functions, branches and loops, shrinks the shape, and zeroes numbers, until
/// nothing more can go. `program` fails; so does what is returned.
Program reduce(Program program, const std::function<bool(const Program &)> &fails,
               const ReduceOptions &options = {});

/// Statements in the program, those inside others included.
std::size_t countStatements(const Program &program);

} // namespace tally::verify

#endif
