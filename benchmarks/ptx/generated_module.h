// PTX as nvcc writes it, made up: the input of the benchmarks.
#ifndef TALLY_BENCHMARKS_PTX_GENERATED_MODULE_H
#define TALLY_BENCHMARKS_PTX_GENERATED_MODULE_H

#include <cstddef>
#include <string>

namespace tally::benchmarks {

/// A module of about `bytes` bytes, the same for the same number. Its kernels are mixed as public
/// projects mix them: 42 % without barrier or warp operation, half with block barriers, 18 % leave
/// early before one; half of them have more than 235 instructions, a tenth more than 1,800.
std::string generateModule(std::size_t bytes);

} // namespace tally::benchmarks

#endif
