// Order statistics.
#ifndef INFERENCE_SERVER_STATISTICS_H
#define INFERENCE_SERVER_STATISTICS_H

#include <algorithm>
#include <cmath>
#include <vector>

namespace inference_server {

/// The smallest value that at least `fraction` of the values do not exceed; NaN without any.
inline double percentile(std::vector<double> values, double fraction) {
  if (values.empty())
    return NAN;
  auto rank = static_cast<std::size_t>(std::ceil(fraction * static_cast<double>(values.size())));
  auto at = values.begin() + static_cast<std::ptrdiff_t>(std::max<std::size_t>(rank, 1) - 1);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

} // namespace inference_server

#endif
