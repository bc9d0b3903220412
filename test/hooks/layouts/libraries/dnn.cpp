// The product of each element, by cuDNN.
#include <cudnn.h>

extern "C" int product(cudaStream_t stream, const float *a, const float *b, float *c, int count) {
  static cudnnHandle_t handle = nullptr;
  static cudnnTensorDescriptor_t shape = nullptr;
  static cudnnOpTensorDescriptor_t multiply = nullptr;
  if (!handle) {
    if (cudnnCreate(&handle) != CUDNN_STATUS_SUCCESS)
      return 1;
    cudnnCreateTensorDescriptor(&shape);
    cudnnSetTensor4dDescriptor(shape, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 1, 1, count);
    cudnnCreateOpTensorDescriptor(&multiply);
    cudnnSetOpTensorDescriptor(multiply, CUDNN_OP_TENSOR_MUL, CUDNN_DATA_FLOAT,
                               CUDNN_NOT_PROPAGATE_NAN);
  }
  float one = 1, zero = 0;
  return cudnnSetStream(handle, stream) != CUDNN_STATUS_SUCCESS ||
         cudnnOpTensor(handle, multiply, &one, shape, a, &one, shape, b, &zero, shape, c) !=
             CUDNN_STATUS_SUCCESS;
}
