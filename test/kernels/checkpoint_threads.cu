// Long blocks whose threads are independent: each thread stops where it polls.
extern "C" {

/// Each thread makes another number of turns; some exit at once. The sums show whether each thread
/// has done its part once.
__global__ void checkpoint_uneven(unsigned *out, unsigned *count, const unsigned *in, int n) {
  unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
  if (in[at] % 5 == 0)
    return;
  unsigned value = at, turns = in[at] % n;
  for (unsigned i = 0; i < turns; ++i)
    value = value * 1664525u + i;
  out[at] += value;
  atomicAdd(count + threadIdx.x % 4, turns + 1);
}

/// An array whose address is kept in a register, in the thread's local memory.
__global__ void checkpoint_local(unsigned *out, const unsigned *in, int n) {
  unsigned box[40];
  for (int i = 0; i < 40; ++i)
    box[i] = in[i] + threadIdx.x;
  unsigned at = threadIdx.x % 40;
  for (int i = 0; i < n; ++i) {
    box[at] += i;
    at = (at * 7 + box[(at + 1) % 40]) % 40;
  }
  unsigned sum = 0;
  for (int i = 0; i < 40; ++i)
    sum = sum * 3 + box[i];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

/// A large array of bytes, which a loop copies.
__global__ void checkpoint_large_local(unsigned char *out, const unsigned char *in, int n) {
  unsigned char box[603];
  for (int i = 0; i < 603; ++i)
    box[i] = static_cast<unsigned char>(in[i % 64] + threadIdx.x);
  unsigned at = threadIdx.x;
  for (int i = 0; i < n; ++i) {
    at = (at * 31 + box[at % 603]) % 603;
    box[at] ^= static_cast<unsigned char>(i);
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = box[at] + box[602] * 3;
}

/// Two loops, one after the other: lanes of a warp stop at both.
__global__ void checkpoint_two_loops(double *out, const double *in, int n) {
  unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
  double value = in[at];
  float low = static_cast<float>(value);
  unsigned first = threadIdx.x % 4, second = at % 3;
  for (unsigned i = 0; i < first + n; ++i)
    value = value * 0.5 + in[(at + i) % 64];
  for (unsigned i = 0; i < second * n; ++i) {
    low = low * 0.25f + static_cast<float>(i);
    value += low;
  }
  out[at] = value;
}
}
