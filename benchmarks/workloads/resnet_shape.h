// The convolutions of a residual network of bottlenecks, in order, and their computation on the
// CPU.
#ifndef TALLY_BENCHMARKS_WORKLOADS_RESNET_SHAPE_H
#define TALLY_BENCHMARKS_WORKLOADS_RESNET_SHAPE_H

#include "kernels/operands.cuh"
#include "memory.h"
#include "reference.h"

namespace workloads {

/// The default is ResNet-50. Images have 8 channels, a whole piece.
struct ResnetShape {
  int batch = 1, side = 224, classes = 1000, widths[4] = {64, 128, 256, 512},
      blocks[4] = {3, 4, 6, 3};
  static constexpr int expansion = 4, channels = 8;
};

/// One bottleneck: three convolutions; the first bottleneck of a stage also has one for the
/// shortcut.
struct Bottleneck {
  product::Convolution first, second, third, shortcut;
  bool projects;
};

struct ResnetLayers {
  explicit ResnetLayers(const ResnetShape &shape);
  product::Convolution stem;
  int pooledSide = 0, lastSide = 0, lastChannels = 0;
  std::vector<Bottleneck> bottlenecks;
  /// All convolutions, the shortcut's before the third of its bottleneck.
  std::vector<product::Convolution> all() const;
};

namespace reference {
/// Images and results as product::Convolution has them.
Values convolve(const Values &images, const Values &filters, const product::Convolution &c);
/// 3x3, stride 2, margin 1: for each result the place of the largest value, the first of equal
/// ones.
std::vector<std::size_t> maxPoolPlaces(const Values &images, int count, int side, int channels);
/// The values at these places.
Values gathered(const Values &values, const std::vector<std::size_t> &places);
Values averagePool(const Values &images, int count, int channels);
} // namespace reference

} // namespace workloads

#endif
