// The arithmetic of the models on the CPU, in double, in the plainest form. Values that a model
// keeps in half precision are rounded to it here too.
#ifndef TALLY_BENCHMARKS_WORKLOADS_REFERENCE_H
#define TALLY_BENCHMARKS_WORKLOADS_REFERENCE_H

#include <functional>
#include <vector>

namespace workloads::reference {

using Values = std::vector<double>;

/// To the nearest half.
double rounded(double value);
/// result[row][o] = sum over i of in[row][i] * weight[o][i] + bias[o]; without bias if it is empty.
Values linear(const Values &in, const Values &weight, const Values &bias, int inputs, int outputs);
Values layerNorm(const Values &in, const Values &gain, const Values &shift, int columns,
                 float epsilon);
/// Attention of one sequence; `qkv`: [sequence][3 * heads * headSize]. `causal`: no position sees a
/// later one.
Values attention(const Values &qkv, int heads, int headSize, bool causal);
Values sum(const Values &a, const Values &b);
double gelu(double x);
/// Every element rounded to half.
Values rounded(Values values);
template <class Function> Values mapped(Values values, Function function) {
  for (double &each : values)
    each = function(each);
  return values;
}

/// The largest difference, over the root of the mean square of `expected`.
double relativeError(const Values &found, const Values &expected);

/// The error of `gradient`: compares each tensor's part (tensors begin at `tensors`, whose last
/// element is the end) with differences of `loss` along two directions, relative to the gradient's
/// length; returns the worst.
double gradientError(const std::function<double(const Values &)> &loss, const Values &parameters,
                     const std::vector<std::size_t> &tensors, const Values &gradient);

} // namespace workloads::reference

#endif
