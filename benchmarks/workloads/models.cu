#include "models.h"

namespace workloads {

std::unique_ptr<Inference> makeInference(const std::string &name, Size size, cudaStream_t stream) {
  if (name == "bert")
    return makeBert(size, stream);
  if (name == "gpt2")
    return makeGpt2(size, stream);
  if (name == "resnet50")
    return makeResnet50(size, stream);
  return nullptr;
}

std::unique_ptr<Training> makeTraining(const std::string &name, Size size, cudaStream_t stream) {
  if (name == "gpt2-training")
    return makeGpt2Training(size, stream);
  if (name == "resnet50-training")
    return makeResnet50Training(size, stream);
  if (name == "dlrm")
    return makeDlrm(size, stream);
  if (name == "monte-carlo")
    return makeMonteCarlo(size, stream);
  return nullptr;
}

} // namespace workloads
