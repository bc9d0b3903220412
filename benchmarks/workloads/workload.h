// What the harness knows of a model: a request that it answers, or steps of a training.
#ifndef TALLY_BENCHMARKS_WORKLOADS_WORKLOAD_H
#define TALLY_BENCHMARKS_WORKLOADS_WORKLOAD_H

#include "memory.h"

#include <cmath>
#include <memory>
#include <string>

namespace workloads {

enum class Size { real, small };

/// What a check against the CPU found: the largest of the errors, relative to what the model says.
class Checked {
public:
  explicit Checked(double allowed) : allowed(allowed) {}
  /// An error that is no number stays.
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
  /// All of a request's work, without waiting for it. May be captured.
  virtual void enqueue(cudaStream_t stream) = 0;
  /// Where the answer is on the device once that is over.
  virtual const float *answer() const = 0;
  virtual std::size_t answerCount() const = 0;
  /// Of `answer`, a request's; against a computation on the CPU. For Size::small.
  virtual Checked check(const std::vector<float> &answer) const = 0;
};

/// Best-effort work. The same from the beginning on: its figures are a function of the steps done.
class Training {
public:
  virtual ~Training() = default;
  /// Back to the beginning.
  virtual void reset(cudaStream_t stream) = 0;
  /// All of a step's work, without waiting for it.
  virtual void enqueue(cudaStream_t stream) = 0;
  /// A figure of the last step that depends on all that was computed before it.
  virtual const float *figure() const = 0;
  /// Does some steps and compares with the CPU. For Size::small.
  virtual Checked check(cudaStream_t stream) = 0;
};

/// The models by name; null for names that are not known.
std::unique_ptr<Inference> makeInference(const std::string &name, Size size);
std::unique_ptr<Training> makeTraining(const std::string &name, Size size);

} // namespace workloads

#endif
