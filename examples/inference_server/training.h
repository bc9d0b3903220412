// Makes the training that the options choose.
#ifndef INFERENCE_SERVER_TRAINING_H
#define INFERENCE_SERVER_TRAINING_H

#include "mlp.h"
#include "transformer.h"

#include <memory>
#include <variant>

namespace inference_server {

using TrainingProblem = std::variant<TransformerProblem, MlpProblem>;

std::unique_ptr<Trainer> makeTrainer(const Session &session, Stream stream,
                                     const TrainingProblem &problem);

} // namespace inference_server

#endif
