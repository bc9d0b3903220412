#include "training.h"

namespace inference_server {

std::unique_ptr<Trainer> makeTrainer(const Session &session, Stream stream,
                                     const TrainingProblem &problem) {
  if (const auto *transformer = std::get_if<TransformerProblem>(&problem))
    return std::make_unique<TransformerTrainer>(session, stream, *transformer);
  return std::make_unique<MlpTrainer>(session, stream, std::get<MlpProblem>(problem));
}

} // namespace inference_server
