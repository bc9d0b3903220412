// The arithmetic of the models on the CPU, in double, as plainly as it can be written. What a model
// keeps in half precision is rounded to it here too.
#ifndef TALLY_BENCHMARKS_WORKLOADS_REFERENCE_H
#define TALLY_BENCHMARKS_WORKLOADS_REFERENCE_H

#include <functional>
#include <vector>

namespace workloads::reference {

using Values = std::vector<double>;

/// To the nearest half.
double rounded(double value);
/// result[row][o] = sum over i of in[row][i] * weight[o][i] + bias[o]; without bias where it is
/// empty.
Values linear(const Values &in, const Values &weight, const Values &bias, int inputs, int outputs);
Values layerNorm(const Values &in, const Values &gain, const Values &shift, int columns,
                 float epsilon);
/// Of one sequence; `qkv`: [sequence][3 * heads * headSize]. `causal`: no position sees a later
/// one.
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

/// How wrong `gradient` is: of each tensor (they begin at `tensors`, the last of which is the end)
/// by differences of `loss` along two directions, over the gradient's length; the worst.
double gradientError(const std::function<double(const Values &)> &loss, const Values &parameters,
                     const std::vector<std::size_t> &tensors, const Values &gradient);

} // namespace workloads::reference

#endif
