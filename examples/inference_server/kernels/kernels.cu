// All kernels of the inference server in one module: the encoder's and the training step's share
// their matrix products. `kernels.ptx` beside this file is what nvcc makes of it, for machines
// without nvcc; a test compares the two where there is one.
#include "attention.cuh"
#include "elementwise.cuh"
#include "gemm.cuh"
#include "reduction.cuh"
#include "rowwise.cuh"
#include "tensor_gemm.cuh"
#include "training.cuh"
#include "training_attention.cuh"
