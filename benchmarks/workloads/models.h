// The models, one translation unit each. The stream fills the model's memory.
#ifndef TALLY_BENCHMARKS_WORKLOADS_MODELS_H
#define TALLY_BENCHMARKS_WORKLOADS_MODELS_H

#include "workload.h"

namespace workloads {

std::unique_ptr<Inference> makeBert(Size size, cudaStream_t stream);
std::unique_ptr<Inference> makeGpt2(Size size, cudaStream_t stream);
std::unique_ptr<Inference> makeResnet50(Size size, cudaStream_t stream);
std::unique_ptr<Training> makeGpt2Training(Size size, cudaStream_t stream);
std::unique_ptr<Training> makeResnet50Training(Size size, cudaStream_t stream);
std::unique_ptr<Training> makeDlrm(Size size, cudaStream_t stream);
std::unique_ptr<Training> makeMonteCarlo(Size size, cudaStream_t stream);

} // namespace workloads

#endif
