// Loops in which threads stop one by one; the threads diverge around the loops and reconverge.
extern "C" {

/// Zero to three turns of a loop around the polling loop, by the thread's remaining bits.
__global__ void joined_skips(unsigned *out, const unsigned *in, int n) {
  unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned skip = in[at], a = at + 1, b = in[at] * 3;
#pragma unroll 1
  while (skip != 0) {
    unsigned made = a * 5;
#pragma unroll 1
    for (unsigned turn = 0; turn < (skip & 3); ++turn) {
      unsigned sum = 0;
#pragma unroll 1
      for (int i = 0; i < n + int(turn); ++i) {
        if (a >> (i & 31) & 1)
          sum ^= b + i;
        b += sum;
      }
      a = sum + turn;
      out[at] += a & 7;
    }
    a += made;
    skip >>= 2;
  }
  out[at] += a ^ b;
}

/// Three nested loops, and a branch around them whose arms meet afterwards.
__global__ void joined_deep(unsigned *out, const unsigned *in, int n) {
  unsigned at = blockIdx.x * blockDim.x + threadIdx.x, a = in[at];
  if (a % 3 != 0) {
#pragma unroll 1
    for (unsigned i = 0; i < a % 4; ++i) {
#pragma unroll 1
      for (unsigned j = 0; j < (a + i) % 3; ++j) {
#pragma unroll 1
        for (int k = 0; k < n; ++k)
          a = a * 1664525u + k;
        out[at] ^= a;
      }
      a += out[at] >> 3;
    }
  } else {
    a *= 7;
  }
  out[at] = out[at] * 5 + a;
}

/// After the inner loop the outer loop goes on or ends.
__global__ void joined_ways(unsigned *out, const unsigned *in, int n) {
  unsigned at = blockIdx.x * blockDim.x + threadIdx.x, a = in[at];
#pragma unroll 1
  for (unsigned i = 0; i < 3; ++i) {
#pragma unroll 1
    for (unsigned k = 0; k < n + a % 5; ++k)
      a = a * 1664525u + k;
    if (a & 1)
      continue;
    out[at] += a;
    if (a & 2)
      break;
    a ^= i;
  }
  out[at] ^= a;
}

/// The inner loop also leads out of the outer loop, and out of the kernel's body.
__global__ void joined_far(unsigned *out, const unsigned *in, int n) {
  unsigned at = blockIdx.x * blockDim.x + threadIdx.x, a = in[at];
#pragma unroll 1
  for (unsigned i = 0; i < 3; ++i) {
#pragma unroll 1
    for (unsigned k = 0; k < n; ++k) {
      a = a * 1664525u + k;
      if ((a >> 20) % 61 == 0)
        goto behind;
    }
    out[at] += a;
  }
  a += 9;
behind:
  out[at] ^= a;
}

/// The inner loop leads out of the block: the threads do not meet afterwards.
__global__ void joined_nowhere(unsigned *out, const unsigned *in, int n) {
  unsigned at = blockIdx.x * blockDim.x + threadIdx.x, a = in[at];
#pragma unroll 1
  for (unsigned i = 0; i < 3; ++i) {
#pragma unroll 1
    for (unsigned k = 0; k < n; ++k) {
      a = a * 1664525u + k;
      if ((a >> 20) % 61 == 0) {
        out[at] = a;
        asm volatile("exit;");
      }
    }
    out[at] += a;
  }
  out[at] ^= a;
}
}
