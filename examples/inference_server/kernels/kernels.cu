// All kernels of the inference server in one module: the encoder's and the training step's share
// their matrix products. `kernels.ptx` beside this file is nvcc's output, for machines without
// nvcc; a test compares the two where nvcc is installed.
#include "attention.cuh"
#include "elementwise.cuh"
#include "gemm.cuh"
#include "reduction.cuh"
#include "rowwise.cuh"
#include "tensor_gemm.cuh"
#include "training.cuh"
#include "training_attention.cuh"
