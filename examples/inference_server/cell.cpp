#include "cell.h"

#include "thread_group.h"

#include <algorithm>
#include <atomic>

namespace inference_server {

namespace {

using tally::runtime::RuntimeOptions;
using tally::runtime::Sharing;

/// More bytes than the second-level cache of any current GPU.
constexpr std::size_t flushBytes = std::size_t{256} << 20;

RuntimeOptions runtimeOptions(const Options &options, Mode mode) {
  RuntimeOptions runtime;
  runtime.device = options.device;
  runtime.kinds = options.kinds;
  switch (mode) {
  case Mode::Alone:
  case Mode::AloneFlushed:
  case Mode::SamePriority:
    runtime.sharing = Sharing::SamePriority;
    break;
  case Mode::LowPriority:
    runtime.sharing = Sharing::LowPriority;
    break;
  case Mode::Tally:
    runtime.sharing = Sharing::Tally;
    break;
  }
  return runtime;
}

Stream trainerStream(const Session &session) {
  Client trainer =
      must(session.runtime().createClient(tally::runtime::Class::BestEffort, "trainer"),
           "creating the trainer's client");
  return must(session.runtime().createStream(trainer), "creating a best-effort stream");
}

double secondsSince(Clock::time_point start) { return Seconds(Clock::now() - start).count(); }

void warmUp(Server &server, const Workload &workload) {
  std::vector<Arrival> arrivals(workload.options.onGpu() ? 20 : 2);
  server.serve(arrivals, workload.inputs, Clock::now());
}

TrainingProblem problemOf(const Options &options) {
  if (options.job == Job::Transformer)
    return TransformerProblem(transformerShape(options), options.seed + 1);
  return MlpProblem(options.training, options.seed + 1);
}

} // namespace

Workload::Workload(const Options &options)
    : options(options), weights(randomEncoderWeights(options.encoder, options.seed)),
      problem(problemOf(options)) {
  for (int i = 0; i < options.inputs; ++i)
    inputs.push_back(randomTokens(options.encoder, options.seed + 2 + i));
}

Cell runCell(const Workload &workload, Mode mode, std::span<const Arrival> arrivals) {
  const Options &options = workload.options;
  Session session(runtimeOptions(options, mode), options.bundle);
  Server server(session, options.encoder, workload.weights, options.workers, options.onGpu());
  std::unique_ptr<Trainer> trainer;
  if (hasTraining(mode))
    trainer = makeTrainer(session, trainerStream(session), workload.problem);
  warmUp(server, workload);
  if (trainer)
    trainer->step();

  std::function<void(Stream)> afterRequest;
  if (mode == Mode::AloneFlushed)
    afterRequest = [&, buffer = session.allocateFloats(flushBytes / sizeof(float))](Stream stream) {
      must(session.runtime().fill(stream, buffer, std::byte{0}, flushBytes), "flushing the cache");
      session.synchronize(stream);
    };

  Cell cell;
  std::uint64_t stepsBefore = trainer ? trainer->steps() : 0;
  std::atomic<bool> stop = false;
  Clock::time_point start = Clock::now();
  ThreadGroup training;
  if (trainer)
    training.run([&] {
      while (!stop)
        trainer->step();
    });
  try {
    cell.served = server.serve(arrivals, workload.inputs, start, afterRequest);
  } catch (...) {
    stop = true;
    throw;
  }
  stop = true;
  training.join();
  cell.seconds = secondsSince(start);
  cell.active = activeSeconds(cell.served);
  cell.statistics = session.runtime().statistics();
  if (trainer) {
    cell.steps = trainer->steps() - stepsBefore;
    cell.trained = trainer->result();
  }
  return cell;
}

TrainingAlone runTrainingAlone(const Workload &workload, const TrainingProblem &problem,
                               double minimumSeconds, std::span<const std::uint64_t> checkpoints) {
  Session session(runtimeOptions(workload.options, Mode::Alone), workload.options.bundle);
  std::unique_ptr<Trainer> trainer = makeTrainer(session, trainerStream(session), problem);
  trainer->step();

  TrainingAlone alone;
  std::size_t next = 0;
  Clock::time_point start = Clock::now();
  while (next < checkpoints.size() || alone.seconds < minimumSeconds) {
    if (next < checkpoints.size() && checkpoints[next] == trainer->steps()) {
      alone.results.push_back(trainer->result());
      ++next;
      start = Clock::now(); // reading back is not training
      continue;
    }
    trainer->step();
    alone.seconds += secondsSince(start);
    start = Clock::now();
    ++alone.steps;
  }
  alone.results.push_back(trainer->result());
  return alone;
}

TransformerTraining trainTransformer(const Workload &workload, const TransformerProblem &problem,
                                     int steps) {
  Session session(runtimeOptions(workload.options, Mode::Alone), workload.options.bundle);
  TransformerTrainer trainer(session, trainerStream(session), problem);
  trainer.step();
  TransformerTraining training{trainer.gradients(), trainer.result(), {}};
  for (int i = 1; i < steps; ++i)
    trainer.step();
  training.last = trainer.result();
  return training;
}

Capacity measureCapacity(const Workload &workload) {
  const Options &options = workload.options;
  Session session(runtimeOptions(options, Mode::Alone), options.bundle);
  Server server(session, options.encoder, workload.weights, 1, options.onGpu());
  warmUp(server, workload);
  std::vector<Arrival> arrivals(options.onGpu() ? 200 : 6);
  double total = 0;
  for (const Served &served : server.serve(arrivals, workload.inputs, Clock::now()))
    total += served.end - served.begin;
  return {session.runtime().deviceInfo().name,
          Seconds(total / static_cast<double>(arrivals.size()))};
}

} // namespace inference_server
