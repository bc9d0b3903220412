// The calls that model and training make to the runtime: kernels by name, arrays, launches. A
// failure of the device ends the run, so it travels as an exception to main(); the runtime itself
// returns values.
#ifndef INFERENCE_SERVER_DEVICE_H
#define INFERENCE_SERVER_DEVICE_H

#include "tally/runtime/runtime.h"

#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace inference_server {

using tally::Dim3;
using tally::runtime::Client;
using tally::runtime::DevicePtr;
using tally::runtime::Runtime;
using tally::runtime::Stream;

template <class T> T must(tally::Result<T> result, std::string_view what) {
  if (!result)
    throw std::runtime_error(std::string(what) + ": " + result.error().message);
  return std::move(*result);
}
inline void must(const tally::Result<void> &result, std::string_view what) {
  if (!result)
    throw std::runtime_error(std::string(what) + ": " + result.error().message);
}

/// A runtime with the server's kernels. Const calls are thread-safe.
class Session {
public:
  Session(const tally::runtime::RuntimeOptions &options, const std::string &bundle)
      : runtimeOwner(must(Runtime::open(options), "opening the device")) {
    auto module = must(runtimeOwner->load(bundle), "loading " + bundle);
    for (const char *name : {"gemm_nn",
                             "gemm_nt",
                             "gemm_tn_split",
                             "attention_forward",
                             "layer_norm",
                             "gelu",
                             "add_residual",
                             "embed",
                             "mean_pool",
                             "relu",
                             "relu_backward",
                             "softmax_cross_entropy",
                             "column_sum",
                             "sum_splits",
                             "accumulate_sum",
                             "sgd_update",
                             "tensor_nn",
                             "tensor_nt",
                             "tensor_tn_split",
                             "training_attention_forward",
                             "training_attention_backward",
                             "norm_forward",
                             "norm_backward",
                             "norm_weights",
                             "bias_sum",
                             "gelu_forward",
                             "gelu_backward",
                             "cross_entropy",
                             "adam_update"})
      kernels[name] = must(runtimeOwner->kernel(module, name), name);
  }

  Runtime &runtime() const { return *runtimeOwner; }

  template <class... T>
  void launch(Stream stream, const char *kernel, const tally::LaunchShape &shape,
              const T &...arguments) const {
    must(runtimeOwner->launch(stream, kernels.find(kernel)->second, shape,
                              tally::runtime::Arguments(arguments...)),
         kernel);
  }

  /// Freed with the device.
  DevicePtr allocateFloats(std::size_t count) const {
    return must(runtimeOwner->allocate(count * sizeof(float)), "allocating");
  }
  template <class T> void upload(Stream stream, DevicePtr to, std::span<const T> from) const {
    must(runtimeOwner->copyToDevice(stream, to, std::as_bytes(from)), "copying to the device");
  }
  template <class T> void download(Stream stream, std::span<T> to, DevicePtr from) const {
    must(runtimeOwner->copyToHost(stream, std::as_writable_bytes(to), from),
         "copying from the device");
  }
  void synchronize(Stream stream) const {
    must(runtimeOwner->synchronize(stream), "waiting for the device");
  }

private:
  std::unique_ptr<Runtime> runtimeOwner;
  std::map<std::string, tally::runtime::Kernel, std::less<>> kernels;
};

constexpr std::uint32_t blocksFor(int count, int perBlock) {
  return static_cast<std::uint32_t>((count + perBlock - 1) / perBlock);
}

/// The i-th float of an array on the device.
constexpr DevicePtr floatAt(DevicePtr array, std::size_t i) { return array + i * sizeof(float); }

} // namespace inference_server

#endif
