#include "reference.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <thread>

namespace inference_server {

namespace {

using Matrix = std::vector<double>;

/// Calls body(i) for i in [0, count), on all cores where the work is large enough; the bodies are
/// independent. `operations`: approximate operations of one body.
void parallelFor(int count, double operations, const std::function<void(int)> &body) {
  if (count * operations < 1e6) {
    for (int i = 0; i < count; ++i)
      body(i);
    return;
  }
  int workers = std::min<int>(count, std::max(1u, std::thread::hardware_concurrency()));
  std::vector<std::thread> threads;
  for (int worker = 0; worker < workers; ++worker)
    threads.emplace_back([=, &body] {
      for (int i = worker; i < count; i += workers)
        body(i);
    });
  for (std::thread &thread : threads)
    thread.join();
}

Matrix transposed(const Matrix &in, int rows, int columns) {
  Matrix out(in.size());
  for (int row = 0; row < rows; ++row)
    for (int column = 0; column < columns; ++column)
      out[static_cast<std::size_t>(column) * rows + row] =
          in[static_cast<std::size_t>(row) * columns + column];
  return out;
}

/// A (m x k) times B (k x n), plus bias (n) where there is one.
Matrix product(const Matrix &a, const double *b, const double *bias, int m, int n, int k) {
  Matrix result(static_cast<std::size_t>(m) * n);
  parallelFor(m, 1.0 * n * k, [&](int row) {
    double *out = &result[static_cast<std::size_t>(row) * n];
    if (bias)
      std::copy(bias, bias + n, out);
    for (int inner = 0; inner < k; ++inner) {
      double factor = a[static_cast<std::size_t>(row) * k + inner];
      const double *line = b + static_cast<std::size_t>(inner) * n;
      for (int column = 0; column < n; ++column)
        out[column] += factor * line[column];
    }
  });
  return result;
}

Matrix normalized(const Matrix &x, const double *gain, const double *shift, int rows, int width) {
  Matrix out(x.size());
  for (int row = 0; row < rows; ++row) {
    const double *in = &x[static_cast<std::size_t>(row) * width];
    double mean = 0, variance = 0;
    for (int i = 0; i < width; ++i)
      mean += in[i] / width;
    for (int i = 0; i < width; ++i)
      variance += (in[i] - mean) * (in[i] - mean) / width;
    double inverse = 1 / std::sqrt(variance + static_cast<double>(layerNormEpsilon));
    for (int i = 0; i < width; ++i)
      out[static_cast<std::size_t>(row) * width + i] =
          (in[i] - mean) * inverse * gain[i] + shift[i];
  }
  return out;
}

/// Works in place; returns the log of the sum of exponentials.
double softmax(std::span<double> line) {
  double maximum = *std::max_element(line.begin(), line.end()), sum = 0;
  for (double &value : line)
    sum += value = std::exp(value - maximum);
  for (double &value : line)
    value /= sum;
  return std::log(sum) + maximum;
}

Matrix attention(const Matrix &qkv, const EncoderShape &shape) {
  int width = shape.width, headSize = shape.headSize(), sequence = shape.sequence;
  Matrix out(static_cast<std::size_t>(shape.rows()) * width);
  parallelFor(shape.batch * shape.heads, 2.0 * sequence * sequence * headSize, [&](int pair) {
    int base = pair / shape.heads * sequence, offset = pair % shape.heads * headSize;
    auto line = [&](int position, int part) {
      return &qkv[static_cast<std::size_t>(base + position) * 3 * width + part * width + offset];
    };
    std::vector<double> scores(sequence);
    for (int query = 0; query < sequence; ++query) {
      for (int key = 0; key < sequence; ++key) {
        scores[key] = 0;
        for (int d = 0; d < headSize; ++d)
          scores[key] += line(query, 0)[d] * line(key, 1)[d] / std::sqrt(headSize);
      }
      softmax(scores);
      for (int key = 0; key < sequence; ++key)
        for (int d = 0; d < headSize; ++d)
          out[static_cast<std::size_t>(base + query) * width + offset + d] +=
              scores[key] * line(key, 2)[d];
    }
  });
  return out;
}

void add(Matrix &x, const Matrix &y) {
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] += y[i];
}

} // namespace

std::vector<double> encoderReference(const EncoderShape &shape, std::span<const float> weights,
                                     std::span<const std::int32_t> tokens) {
  EncoderLayout layout(shape);
  Matrix w(weights.begin(), weights.end());
  int rows = shape.rows(), width = shape.width, hidden = shape.hidden();
  Matrix x(static_cast<std::size_t>(rows) * width);
  for (int row = 0; row < rows; ++row)
    for (int i = 0; i < width; ++i)
      x[static_cast<std::size_t>(row) * width + i] =
          w[layout.table + static_cast<std::size_t>(tokens[row]) * width + i] +
          w[layout.positions + static_cast<std::size_t>(row % shape.sequence) * width + i];

  for (const EncoderLayout::Layer &layer : layout.layers) {
    Matrix normed = normalized(x, &w[layer.gain1], &w[layer.shift1], rows, width);
    Matrix qkv = product(normed, &w[layer.qkv], &w[layer.qkvBias], rows, 3 * width, width);
    Matrix context = attention(qkv, shape);
    add(x, product(context, &w[layer.out], &w[layer.outBias], rows, width, width));
    normed = normalized(x, &w[layer.gain2], &w[layer.shift2], rows, width);
    Matrix up = product(normed, &w[layer.up], &w[layer.upBias], rows, hidden, width);
    for (double &value : up)
      value *= 0.5 * (1 + std::erf(value / std::numbers::sqrt2));
    add(x, product(up, &w[layer.down], &w[layer.downBias], rows, width, hidden));
  }
  Matrix normed = normalized(x, &w[layout.finalGain], &w[layout.finalShift], rows, width);
  Matrix pooled(static_cast<std::size_t>(shape.batch) * width);
  for (int row = 0; row < rows; ++row)
    for (int i = 0; i < width; ++i)
      pooled[static_cast<std::size_t>(row / shape.sequence) * width + i] +=
          normed[static_cast<std::size_t>(row) * width + i] / shape.sequence;
  return product(pooled, &w[layout.head], &w[layout.headBias], shape.batch, shape.classes, width);
}

MlpReference::MlpReference(const MlpProblem &problem)
    : shape(problem.shape), layout(problem.shape),
      inputs(problem.inputs.begin(), problem.inputs.end()),
      parameterValues(problem.parameters.begin(), problem.parameters.end()),
      labels(problem.labels) {}

void MlpReference::step() {
  int batch = shape.batch;
  std::vector<Matrix> activations = {inputs};
  for (const MlpLayout::Layer &layer : layout.layers) {
    activations.push_back(product(activations.back(), &parameterValues[layer.weight],
                                  &parameterValues[layer.bias], batch, layer.outputs,
                                  layer.inputs));
    if (activations.size() <= layout.layers.size())
      for (double &value : activations.back())
        value = std::max(value, 0.0);
  }
  Matrix gradient = activations.back();
  lastMeanLoss = 0;
  for (int row = 0; row < batch; ++row) {
    std::span line(&gradient[static_cast<std::size_t>(row) * shape.classes], shape.classes);
    double chosen = line[labels[row]];
    lastMeanLoss += (softmax(line) - chosen) / batch;
    line[labels[row]] -= 1;
    for (double &value : line)
      value /= batch;
  }
  Matrix gradients(layout.total);
  for (std::size_t i = layout.layers.size(); i-- > 0;) {
    const MlpLayout::Layer &layer = layout.layers[i];
    Matrix weightGradient = product(transposed(activations[i], batch, layer.inputs),
                                    gradient.data(), nullptr, layer.inputs, layer.outputs, batch);
    std::copy(weightGradient.begin(), weightGradient.end(), gradients.begin() + layer.weight);
    for (std::size_t j = 0; j < gradient.size(); ++j)
      gradients[layer.bias + j % layer.outputs] += gradient[j];
    if (i == 0)
      break;
    Matrix weight(parameterValues.begin() + layer.weight, parameterValues.begin() + layer.bias);
    gradient = product(gradient, transposed(weight, layer.inputs, layer.outputs).data(), nullptr,
                       batch, layer.inputs, layer.outputs);
    for (std::size_t j = 0; j < gradient.size(); ++j)
      if (activations[i][j] <= 0)
        gradient[j] = 0;
  }
  for (std::size_t j = 0; j < layout.total; ++j)
    parameterValues[j] -= static_cast<double>(shape.rate) * gradients[j];
  ++stepsDone;
}

double transformerLoss(const TransformerProblem &problem, std::span<const double> parameters) {
  const TransformerShape &shape = problem.shape;
  TransformerLayout layout(shape);
  const double *w = parameters.data();
  int rows = shape.rows(), width = shape.width;
  auto affine = [&](const Matrix &in, const TransformerLayout::Affine &layer) {
    return product(in, w + layer.weight, w + layer.bias, rows, layer.outputs, layer.inputs);
  };
  auto norm = [&](const Matrix &in, std::size_t at) {
    return normalized(in, w + at, w + at + width, rows, width);
  };
  EncoderShape heads{.layers = shape.layers,
                     .width = width,
                     .heads = shape.heads,
                     .sequence = shape.sequence,
                     .batch = shape.batch};
  Matrix x = affine({problem.inputs.begin(), problem.inputs.end()}, layout.project);
  for (const TransformerLayout::Layer &layer : layout.layers) {
    add(x, affine(attention(affine(norm(x, layer.norm1), layer.qkv), heads), layer.out));
    Matrix up = affine(norm(x, layer.norm2), layer.up);
    for (double &value : up)
      value *= 0.5 * (1 + std::erf(value / std::numbers::sqrt2));
    add(x, affine(up, layer.down));
  }
  Matrix logits = affine(norm(x, layout.finalNorm), layout.head);
  double loss = 0;
  for (int row = 0; row < rows; ++row) {
    std::span line(&logits[static_cast<std::size_t>(row) * shape.classes], shape.classes);
    double chosen = line[problem.labels[row]];
    loss += softmax(line) - chosen;
  }
  return loss;
}

double relativeDifference(std::span<const float> a, std::span<const double> b) {
  double difference = 0, magnitude = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    if (!std::isfinite(a[i]))
      return std::numeric_limits<double>::infinity();
    difference = std::max(difference, std::abs(a[i] - b[i]));
    magnitude = std::max(magnitude, std::abs(b[i]));
  }
  return difference / magnitude;
}

} // namespace inference_server
