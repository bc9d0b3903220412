// Generated PTX in nvcc's form: the input of the benchmarks.
#ifndef TALLY_BENCHMARKS_PTX_GENERATED_MODULE_H
#define TALLY_BENCHMARKS_PTX_GENERATED_MODULE_H

#include <cstddef>
#include <string>

namespace tally::benchmarks {

/// Returns a module of about `bytes` bytes; equal sizes give equal modules. Its kernels are mixed
/// like those of public projects: 42 % without barrier or warp operation, half with block barriers,
/// 18 % leave early before a barrier; half of them have more than 235 instructions, a tenth more
/// than 1,800.
std::string generateModule(std::size_t bytes);

} // namespace tally::benchmarks

#endif
