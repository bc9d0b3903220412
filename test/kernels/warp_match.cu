// match.any, match.all and redux over lanes that agree on few values.
extern "C" __global__ void warp_match(unsigned *out, const unsigned *in) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x, value = in[i] % 5;
  unsigned same = __match_any_sync(~0u, value);
  unsigned sum = __reduce_add_sync(same, i), least = __reduce_min_sync(same, in[i]);
  int most = __reduce_max_sync(same, static_cast<int>(in[i]));
  unsigned bits = __reduce_or_sync(same, 1u << (i % 32)) ^ __reduce_and_sync(~0u, value | 8);
  int all = 0;
  unsigned agreed = __match_all_sync(same, static_cast<unsigned long long>(value) << 40, &all);
  if (agreed != same || !all || (bits ^ same) / 16 || sum % __popc(same) > 32 * 32)
    __trap();
  out[i] = sum + 3 * least + 5 * static_cast<unsigned>(most) + 7 * bits;
}
