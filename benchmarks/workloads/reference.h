// The arithmetic of the models on the CPU, in float, as plainly as it can be written. What a model
// keeps in half precision is rounded to it here too.
#ifndef TALLY_BENCHMARKS_WORKLOADS_REFERENCE_H
#define TALLY_BENCHMARKS_WORKLOADS_REFERENCE_H

#include <vector>

namespace workloads::reference {

using Values = std::vector<float>;

/// To the nearest half.
float rounded(float value);
/// result[row][o] = sum over i of in[row][i] * weight[o][i] + bias[o]; without bias where it is
/// empty.
Values linear(const Values &in, const Values &weight, const Values &bias, int inputs, int outputs);
Values layerNorm(const Values &in, const Values &gain, const Values &shift, int columns,
                 float epsilon);
/// Of one sequence; `qkv`: [sequence][3 * heads * headSize]. `causal`: no position sees a later
/// one.
Values attention(const Values &qkv, int heads, int headSize, bool causal);
Values sum(const Values &a, const Values &b);
float gelu(float x);
/// Every element rounded to half.
Values rounded(Values values);
template <class Function> Values mapped(Values values, Function function) {
  for (float &each : values)
    each = function(each);
  return values;
}

/// The largest difference, over the root of the mean square of `expected`.
double relativeError(const Values &found, const Values &expected);

} // namespace workloads::reference

#endif
