#include "resnet_shape.h"

namespace workloads {

ResnetLayers::ResnetLayers(const ResnetShape &shape)
    : stem(shape.batch, shape.side, shape.side, ResnetShape::channels, shape.widths[0], 7, 2) {
  using product::Convolution;
  pooledSide = (stem.rows - 1) / 2 + 1;
  int side = pooledSide, channels = shape.widths[0], batch = shape.batch;
  for (int stage = 0; stage < 4; ++stage)
    for (int i = 0; i < shape.blocks[stage]; ++i) {
      int width = shape.widths[stage], stride = stage > 0 && i == 0 ? 2 : 1;
      Convolution first(batch, side, side, channels, width, 1, 1);
      Convolution second(batch, side, side, width, width, 3, stride);
      int wide = width * ResnetShape::expansion;
      Convolution third(batch, second.rows, second.rows, width, wide, 1, 1);
      Convolution shortcut(batch, side, side, channels, wide, 1, stride);
      bottlenecks.push_back({first, second, third, shortcut, i == 0});
      side = second.rows;
      channels = wide;
    }
  lastSide = side;
  lastChannels = channels;
}

std::vector<product::Convolution> ResnetLayers::all() const {
  std::vector<product::Convolution> convolutions = {stem};
  for (const Bottleneck &each : bottlenecks) {
    convolutions.insert(convolutions.end(), {each.first, each.second});
    if (each.projects)
      convolutions.push_back(each.shortcut);
    convolutions.push_back(each.third);
  }
  return convolutions;
}

namespace reference {

Values convolve(const Values &images, const Values &filters, const product::Convolution &c) {
  Values results(static_cast<std::size_t>(c.results()) * c.filters);
  for (int result = 0; result < c.results(); ++result) {
    int image = result / (c.rows * c.columns);
    int row = result / c.columns % c.rows, column = result % c.columns;
    for (int y = 0; y < c.taps; ++y)
      for (int x = 0; x < c.taps; ++x) {
        int fromRow = row * c.stride - c.margin + y, fromColumn = column * c.stride - c.margin + x;
        if (fromRow < 0 || fromRow >= c.height || fromColumn < 0 || fromColumn >= c.width)
          continue;
        const double *pixel =
            &images[(std::size_t(image * c.height + fromRow) * c.width + fromColumn) * c.channels];
        for (int f = 0; f < c.filters; ++f) {
          const double *filter = &filters[(std::size_t(f * c.taps + y) * c.taps + x) * c.channels];
          double sum = 0;
          for (int channel = 0; channel < c.channels; ++channel)
            sum += pixel[channel] * filter[channel];
          results[std::size_t(result) * c.filters + f] += sum;
        }
      }
  }
  return results;
}

std::vector<std::size_t> maxPoolPlaces(const Values &images, int count, int side, int channels) {
  int rows = (side - 1) / 2 + 1;
  const std::size_t none = images.size();
  std::vector<std::size_t> places(std::size_t(count) * rows * rows * channels, none);
  for (int image = 0; image < count; ++image)
    for (int i = 0; i < rows * rows * 9; ++i) {
      int place = i / 9, y = place / rows * 2 - 1 + i % 9 / 3, x = place % rows * 2 - 1 + i % 3;
      if (y < 0 || y >= side || x < 0 || x >= side)
        continue;
      for (int channel = 0; channel < channels; ++channel) {
        std::size_t &best = places[(std::size_t(image) * rows * rows + place) * channels + channel];
        std::size_t at = (std::size_t(image * side + y) * side + x) * channels + channel;
        if (best == none || images[at] > images[best])
          best = at;
      }
    }
  return places;
}

Values gathered(const Values &values, const std::vector<std::size_t> &places) {
  Values results;
  for (std::size_t place : places)
    results.push_back(values[place]);
  return results;
}

Values averagePool(const Values &images, int count, int channels) {
  std::size_t pixels = images.size() / (std::size_t(count) * channels);
  Values results(std::size_t(count) * channels);
  for (std::size_t i = 0; i < images.size(); ++i)
    results[i / (pixels * channels) * channels + i % channels] +=
        images[i] / static_cast<double>(pixels);
  return results;
}

} // namespace reference

} // namespace workloads
