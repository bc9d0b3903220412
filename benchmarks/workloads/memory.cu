#include "memory.h"

namespace workloads {

namespace {

__global__ void fillHalves(__half *to, std::size_t count, Filling filling) {
  std::size_t step = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step)
    to[i] = __float2half_rn(filling.at(i));
}

__global__ void fillFloats(float *to, std::size_t count, Filling filling) {
  std::size_t step = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step)
    to[i] = filling.at(i);
}

unsigned blocksToFill(std::size_t count) {
  return static_cast<unsigned>(std::min<std::size_t>((count + 255) / 256, 1056));
}

} // namespace

float powerBelow(double value) {
  return static_cast<float>(std::exp2(std::floor(std::log2(value))));
}

Memory::~Memory() {
  for (void *each : pieces)
    check(cudaFree(each), "cudaFree");
}

void *Memory::allocate(std::size_t bytes) {
  void *piece = nullptr;
  check(cudaMalloc(&piece, std::max<std::size_t>(bytes, 16)), "cudaMalloc");
  pieces.push_back(piece);
  total += bytes;
  check(cudaMemsetAsync(piece, 0, bytes, stream), "cudaMemsetAsync");
  return piece;
}

__half *Memory::halves(std::size_t count, const Filling &filling) {
  auto *to = array<__half>(count);
  fill(stream, to, count, filling);
  finish(stream);
  return to;
}

float *Memory::floats(std::size_t count, const Filling &filling) {
  return floats({0, count}, {filling});
}

float *Memory::floats(const std::vector<std::size_t> &starts,
                      const std::vector<Filling> &fillings) {
  auto *to = array<float>(starts.back());
  for (std::size_t i = 0; i < fillings.size(); ++i)
    fill(stream, to + starts[i], starts[i + 1] - starts[i], fillings[i]);
  finish(stream);
  return to;
}

void fill(cudaStream_t stream, __half *to, std::size_t count, const Filling &filling) {
  fillHalves<<<blocksToFill(count), 256, 0, stream>>>(to, count, filling);
}

void fill(cudaStream_t stream, float *to, std::size_t count, const Filling &filling) {
  fillFloats<<<blocksToFill(count), 256, 0, stream>>>(to, count, filling);
}

std::vector<float> downloadFloats(const __half *from, std::size_t count) {
  std::vector<float> values;
  values.reserve(count);
  for (__half each : download(from, count))
    values.push_back(__half2float(each));
  return values;
}

std::vector<double> hostHalves(std::size_t count, const Filling &filling) {
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = __half2float(__float2half_rn(filling.at(i)));
  return values;
}

std::vector<double> hostFloats(std::size_t count, const Filling &filling) {
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = filling.at(i);
  return values;
}

} // namespace workloads
