// Loops that threads stop in one by one, around which they part and meet again.
extern "C" {

/// None to three turns of a loop around the one that polls, as often as the thread has bits left.
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

/// Three loops deep, and a branch around them whose arms meet behind.
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

/// The outer loop goes on, or is left, behind the inner one.
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

/// The inner loop is left behind the outer one too, and the body from inside.
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

/// The block is left from inside of the inner loop: threads meet nowhere behind it.
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
