#include "models.h"

namespace workloads {

std::unique_ptr<Inference> makeInference(const std::string &name, Size size) {
  if (name == "bert")
    return makeBert(size);
  return nullptr;
}

std::unique_ptr<Training> makeTraining(const std::string &name, Size size) {
  if (name == "monte-carlo")
    return makeMonteCarlo(size);
  return nullptr;
}

} // namespace workloads
