#include "reference.h"

#include "memory.h"

#include <cuda_fp16.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

namespace workloads::reference {

double rounded(double value) { return __half2float(__double2half(value)); }

Values rounded(Values values) {
  return mapped(std::move(values), [](double each) { return rounded(each); });
}

Values linear(const Values &in, const Values &weight, const Values &bias, int inputs, int outputs) {
  int rows = static_cast<int>(in.size()) / inputs;
  Values result(static_cast<std::size_t>(rows) * outputs);
  for (int row = 0; row < rows; ++row)
    for (int o = 0; o < outputs; ++o) {
      double sum = bias.empty() ? 0 : bias[o];
      for (int i = 0; i < inputs; ++i)
        sum += in[row * inputs + i] * weight[o * inputs + i];
      result[row * outputs + o] = sum;
    }
  return result;
}

Values layerNorm(const Values &in, const Values &gain, const Values &shift, int columns,
                 float epsilon) {
  Values out(in.size());
  for (std::size_t row = 0; row < in.size() / columns; ++row) {
    const double *line = &in[row * columns];
    double mean = 0, variance = 0;
    for (int i = 0; i < columns; ++i)
      mean += line[i] / double(columns);
    for (int i = 0; i < columns; ++i)
      variance += (line[i] - mean) * (line[i] - mean) / columns;
    for (int i = 0; i < columns; ++i)
      out[row * columns + i] =
          (line[i] - mean) / std::sqrt(variance + epsilon) * gain[i] + shift[i];
  }
  return out;
}

Values attention(const Values &qkv, int heads, int headSize, bool causal) {
  int width = heads * headSize, sequence = static_cast<int>(qkv.size()) / (3 * width);
  Values out(static_cast<std::size_t>(sequence) * width);
  std::vector<double> weights(sequence);
  for (int head = 0; head < heads; ++head)
    for (int q = 0; q < sequence; ++q) {
      int seen = causal ? q + 1 : sequence;
      double most = -std::numeric_limits<double>::infinity(), total = 0;
      for (int key = 0; key < seen; ++key) {
        double score = 0;
        for (int d = 0; d < headSize; ++d)
          score += qkv[q * 3 * width + head * headSize + d] *
                   qkv[key * 3 * width + width + head * headSize + d];
        weights[key] = score / std::sqrt(double(headSize));
        most = std::max(most, weights[key]);
      }
      for (int key = 0; key < seen; ++key)
        total += weights[key] = std::exp(weights[key] - most);
      for (int d = 0; d < headSize; ++d) {
        double sum = 0;
        for (int key = 0; key < seen; ++key)
          sum += weights[key] / total * qkv[key * 3 * width + 2 * width + head * headSize + d];
        out[q * width + head * headSize + d] = sum;
      }
    }
  return out;
}

Values sum(const Values &a, const Values &b) {
  Values result(a.size());
  std::transform(a.begin(), a.end(), b.begin(), result.begin(), std::plus<>());
  return result;
}

double gelu(double x) { return 0.5 * x * (1 + std::erf(x * std::sqrt(0.5))); }

double relativeError(const Values &found, const Values &expected) {
  assert(found.size() == expected.size());
  double worst = 0, squares = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    double difference = std::fabs(found[i] - expected[i]);
    if (std::isnan(difference))
      return difference;
    worst = std::max(worst, difference);
    squares += expected[i] * expected[i];
  }
  return worst / std::sqrt(squares / static_cast<double>(found.size()));
}

double gradientError(const std::function<double(const Values &)> &loss, const Values &parameters,
                     const std::vector<std::size_t> &tensors, const Values &gradient) {
  double worst = 0;
  for (std::size_t t = 0; t + 1 < tensors.size(); ++t) {
    std::size_t begin = tensors[t], end = tensors[t + 1];
    double norm = 0;
    for (std::size_t i = begin; i < end; ++i)
      norm += gradient[i] * gradient[i];
    norm = std::sqrt(norm);
    // Along the gradient, and along an unrelated direction, with a length that makes its part of
    // the gradient about as long.
    for (bool along : {true, false}) {
      auto direction = [&](std::size_t i) {
        return along ? gradient[i] / norm
                     : (randomBits(static_cast<std::uint32_t>(t), i) & 1 ? 1.0 : -1.0);
      };
      auto lossAt = [&](double distance) {
        Values moved = parameters;
        for (std::size_t i = begin; i < end; ++i)
          moved[i] += distance * direction(i);
        return loss(moved);
      };
      double step = along ? 1e-6 : 1e-6 / std::sqrt(static_cast<double>(end - begin)), said = 0;
      for (std::size_t i = begin; i < end; ++i)
        said += gradient[i] * direction(i);
      double error = std::fabs(said - (lossAt(step) - lossAt(-step)) / (2 * step)) / norm;
      if (std::isnan(error))
        return error;
      worst = std::max(worst, error);
    }
  }
  return worst;
}

} // namespace workloads::reference
