// The shape of GPT-2, the places of its parameters in one array, and the computation on the CPU.
#ifndef TALLY_BENCHMARKS_WORKLOADS_GPT2_REFERENCE_H
#define TALLY_BENCHMARKS_WORKLOADS_GPT2_REFERENCE_H

#include "memory.h"
#include "reference.h"

namespace workloads {

struct Gpt2Shape {
  int layers = 12, width = 768, heads = 12, sequence = 1024, batch = 4, vocabulary = 50257;
  int rows() const { return batch * sequence; }
  int headSize() const { return width / heads; }
  /// Number of logits in memory: the vocabulary, padded.
  int columns() const { return (vocabulary + 127) / 128 * 128; }
};

/// In a norm the gain comes first, then the shift.
struct Gpt2Layout {
  struct Affine {
    std::size_t weight, bias;
    int inputs, outputs;
  };
  struct Layer {
    std::size_t norm1;
    Affine qkv, out;
    std::size_t norm2;
    Affine up, down;
  };
  struct Part {
    std::size_t begin, count;
    Filling filling;
  };
  explicit Gpt2Layout(const Gpt2Shape &shape);
  /// The begin of each part, then the total.
  std::vector<std::size_t> tensors() const;

  std::size_t words = 0, positions = 0, finalNorm = 0, total = 0;
  std::vector<Layer> layers;
  std::vector<Part> parts;

private:
  std::size_t take(std::size_t count, float scale, float offset = 0);
  std::size_t takeNorm(int width);
  Affine takeAffine(int inputs, int outputs);
};

/// The sum of all positions' losses.
double gpt2Loss(const Gpt2Shape &shape, const Gpt2Layout &layout,
                const reference::Values &parameters, const std::vector<int> &tokens,
                const std::vector<int> &labels);

} // namespace workloads

#endif
