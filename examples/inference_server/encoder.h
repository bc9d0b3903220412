// The model that serves: a transformer encoder with a classification head, pre-norm, fp32.
//
//   x = embed(tokens);  per layer: x += out(attention(norm(x)));  x += ff2(gelu(ff1(norm(x))));
//   logits = head(mean over positions of norm(x))
#ifndef INFERENCE_SERVER_ENCODER_H
#define INFERENCE_SERVER_ENCODER_H

#include "device.h"

#include <cstdint>
#include <vector>

namespace inference_server {

struct EncoderShape {
  int layers = 0, width = 0, heads = 0, sequence = 0, batch = 0;
  int vocabulary = 256, classes = 16;

  int rows() const { return batch * sequence; }
  int hidden() const { return 4 * width; }
  int headSize() const { return width / heads; }
};

/// Offset of each tensor in the one array of weights, in floats.
struct EncoderLayout {
  struct Layer {
    std::size_t gain1, shift1, qkv, qkvBias, out, outBias;
    std::size_t gain2, shift2, up, upBias, down, downBias;
  };
  explicit EncoderLayout(const EncoderShape &shape);

  std::size_t table, positions, finalGain, finalShift, head, headBias;
  std::vector<Layer> layers;
  std::size_t total = 0;
};

constexpr float layerNormEpsilon = 1e-5f;

std::vector<float> randomEncoderWeights(const EncoderShape &shape, std::uint64_t seed);
std::vector<std::int32_t> randomTokens(const EncoderShape &shape, std::uint64_t seed);

/// One worker's encoder: its own activations, weights shared with the other workers. One request at
/// a time.
class Encoder {
public:
  Encoder(const Session &session, const EncoderShape &shape, DevicePtr weights);

  /// Puts all launches of a request on the stream. `tokens` and `logits` (batch x classes) are used
  /// until the stream is synchronised.
  void enqueue(Stream stream, std::span<const std::int32_t> tokens, std::span<float> logits);

private:
  void enqueueLayer(Stream stream, const EncoderLayout::Layer &layer);
  void product(Stream stream, DevicePtr a, std::size_t weight, std::size_t bias, DevicePtr result,
               int rows, int columns, int inner);
  void norm(Stream stream, std::size_t gain, std::size_t shift);
  void addResidual(Stream stream, DevicePtr addend);

  const Session &session;
  EncoderShape shape;
  EncoderLayout layout;
  DevicePtr weights;
  DevicePtr tokens, x, normed, qkv, context, hidden, pooled, logits;
};

} // namespace inference_server

#endif
