// The harness's interface to a model: a request that it answers, or steps of a training.
#ifndef TALLY_BENCHMARKS_WORKLOADS_WORKLOAD_H
#define TALLY_BENCHMARKS_WORKLOADS_WORKLOAD_H

#include "memory.h"

#include <cmath>
#include <memory>
#include <string>

namespace workloads {

enum class Size { real, small };

/// The result of a check against the CPU: the largest of the errors, relative to the model's
/// values.
class Checked {
public:
  explicit Checked(double allowed) : allowed(allowed) {}
  /// Adds an error; NaN stays.
  void add(double another) {
    if (!std::isnan(error) && !(another <= error))
      error = another;
  }
  double largest() const { return error; }
  double limit() const { return allowed; }
  bool right() const { return error <= allowed; }

private:
  double error = 0, allowed;
};

/// A model that answers requests, batch 1. Each request is the same.
class Inference {
public:
  virtual ~Inference() = default;
  /// Enqueues all work of a request, without waiting for it. A stream capture may contain it.
  virtual void enqueue(cudaStream_t stream) = 0;
  /// Place of the answer on the device, after that work.
  virtual const float *answer() const = 0;
  virtual std::size_t answerCount() const = 0;
  /// Compares `answer`, of a request, with a computation on the CPU. For Size::small.
  virtual Checked check(const std::vector<float> &answer) const = 0;
};

/// Best-effort work. Each training starts from the same state: its figures are a function of the
/// steps done.
class Training {
public:
  virtual ~Training() = default;
  /// Back to the beginning.
  virtual void reset(cudaStream_t stream) = 0;
  /// Enqueues all work of a step, without waiting for it.
  virtual void enqueue(cudaStream_t stream) = 0;
  /// A figure of the last step that depends on all values computed before it.
  virtual const float *figure() const = 0;
  /// Does some steps and compares with the CPU. For Size::small.
  virtual Checked check(cudaStream_t stream) = 0;
};

/// The models by name; null for an unknown name. The model's work goes to `stream`.
std::unique_ptr<Inference> makeInference(const std::string &name, Size size, cudaStream_t stream);
std::unique_ptr<Training> makeTraining(const std::string &name, Size size, cudaStream_t stream);

} // namespace workloads

#endif
