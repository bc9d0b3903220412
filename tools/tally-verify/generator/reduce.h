// Makes a failing program smaller while it still fails.
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
/// no further step keeps the failure. `program` fails, and so does the returned program.
Program reduce(Program program, const std::function<bool(const Program &)> &fails,
               const ReduceOptions &options = {});

/// Returns the number of statements in the program, including nested ones.
std::size_t countStatements(const Program &program);

} // namespace tally::verify

#endif
