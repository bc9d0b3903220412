// The models, one translation unit each.
#ifndef TALLY_BENCHMARKS_WORKLOADS_MODELS_H
#define TALLY_BENCHMARKS_WORKLOADS_MODELS_H

#include "workload.h"

namespace workloads {

std::unique_ptr<Inference> makeBert(Size size);
std::unique_ptr<Inference> makeGpt2(Size size);
std::unique_ptr<Inference> makeResnet50(Size size);
std::unique_ptr<Training> makeGpt2Training(Size size);
std::unique_ptr<Training> makeResnet50Training(Size size);
std::unique_ptr<Training> makeDlrm(Size size);
std::unique_ptr<Training> makeMonteCarlo(Size size);

} // namespace workloads

#endif
