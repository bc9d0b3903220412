#include "models.h"

namespace workloads {

std::unique_ptr<Inference> makeInference(const std::string &name, Size size) {
  if (name == "bert")
    return makeBert(size);
  if (name == "gpt2")
    return makeGpt2(size);
  if (name == "resnet50")
    return makeResnet50(size);
  return nullptr;
}

std::unique_ptr<Training> makeTraining(const std::string &name, Size size) {
  if (name == "gpt2-training")
    return makeGpt2Training(size);
  if (name == "resnet50-training")
    return makeResnet50Training(size);
  if (name == "dlrm")
    return makeDlrm(size);
  if (name == "monte-carlo")
    return makeMonteCarlo(size);
  return nullptr;
}

} // namespace workloads
