#include "training_load.h"

#include "training.cuh"

namespace {
std::unique_ptr<colocation::Trainer> trainer;
}

void startTraining(unsigned blocks, double blockMicroseconds) {
  colocation::TrainerOptions options;
  options.blocks = blocks;
  options.rounds = colocation::trainingRounds(blockMicroseconds);
  options.kernelsPerStep = 4;
  trainer = std::make_unique<colocation::Trainer>(options);
  trainer->start();
}

std::size_t stopTraining() {
  trainer->stop();
  return trainer->wrongResults();
}
