// Words that are claimed once, by compare-and-swap from "empty": nobody waits for anybody, as what
// is not empty stays as it is. Then kernels that look like it, each with a reason to wait.
struct Pair {
  unsigned key, value;
};
// A hash table with linear probing. The value is the other member of the element.
extern "C" __global__ void claim_pairs(Pair *table, const unsigned *in, unsigned mask) {
  unsigned at = blockIdx.x * blockDim.x + threadIdx.x, key = at % 96 + 1;
  for (unsigned slot = key * 2654435769u >> 16 & mask;; slot = slot + 1 & mask) {
    unsigned seen = atomicCAS(&table[slot].key, 0, key);
    if (seen == 0 || seen == key) {
      atomicAdd(&table[slot].value, in[at]);
      return;
    }
  }
}
// Keys of 64 bits and values apart from them, in a table of any size; the first one to come stays.
extern "C" __global__ void claim_apart(unsigned long long *keys, unsigned *values,
                                       const unsigned *in, unsigned size) {
  unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned long long key = at + 1ull, slot = key * 2654435769u % size, seen;
  for (;;) {
    seen = atomicCAS(&keys[slot], 0ull, key);
    if (seen == key)
      return;
    if (seen == 0)
      break;
    slot = (slot + 1) % size;
  }
  values[slot] = in[at] & 1;
}
// Lists, to the end of which nodes are put: each link is written once. 0 is the end.
extern "C" __global__ void claim_links(unsigned *links, unsigned lists) {
  unsigned node = lists + blockIdx.x * blockDim.x + threadIdx.x, place = node % lists;
  while (unsigned next = atomicCAS(links + place, 0, node))
    place = next;
}
// Another block makes room in a table that is full.
extern "C" __global__ void claim_erased(Pair *table, unsigned mask) {
  unsigned key = blockIdx.x + 1, slot = key & mask;
  while (atomicCAS(&table[slot].key, 0, key) != 0)
    slot = slot + 1 & mask;
  atomicExch(&table[(slot ^ 1) & mask].key, 0);
}
// The same by a plain store.
extern "C" __global__ void claim_erased_plainly(unsigned *table, unsigned mask) {
  unsigned key = blockIdx.x + 1, slot = key & mask;
  while (atomicCAS(&table[slot], 0, key) != 0)
    slot = slot + 1 & mask;
  table[(slot ^ 1) & mask] = 0;
}
// By a function that is called.
__device__ __noinline__ void erase(unsigned *word) { *word = 0; }
extern "C" __global__ void claim_erased_by_callee(unsigned *table, unsigned mask) {
  unsigned key = blockIdx.x + 1, slot = key & mask;
  while (atomicCAS(&table[slot], 0, key) != 0)
    slot = slot + 1 & mask;
  erase(table + ((slot ^ 1) & mask));
}
// Values behind the keys in one array: not shown to be no keys.
extern "C" __global__ void claim_behind(unsigned *table, unsigned size) {
  unsigned key = blockIdx.x + 1, slot = key % size;
  while (atomicCAS(&table[slot], 0, key) != 0)
    slot = (slot + 1) % size;
  table[size + slot] = 0;
}
// Goes from slot to slot, and at each it waits until somebody has filled it.
extern "C" __global__ void claim_ring(unsigned *slots, unsigned count) {
  for (unsigned i = 0; i != count; ++i)
    while (atomicCAS(&slots[i], 0, 0) == 0)
      ;
  atomicCAS(&slots[blockIdx.x + count], 0, 1);
}
// Goes round until one of them is filled.
extern "C" __global__ void claim_round(unsigned *slots, unsigned count) {
  unsigned i = 0;
  while (atomicCAS(&slots[i], 0, 0) == 0)
    i = (i + 1) % count;
  atomicCAS(&slots[blockIdx.x], 0, 1);
}
// What one block fills another one empties into its own state: from 0 to 1, from 1 to 2.
extern "C" __global__ void claim_stages(unsigned *slots, unsigned count) {
  unsigned i = blockIdx.x % count;
  while (atomicCAS(&slots[i], 1, 2) != 1)
    i = (i + 1) % count;
  atomicCAS(&slots[blockIdx.x % count], 0, 1);
}
// Success does not leave: what it put there has to be taken by another block.
extern "C" __global__ void claim_handed_over(unsigned *slots, unsigned *out) {
  unsigned seen;
  do {
    seen = atomicCAS(&slots[blockIdx.x], 0, 1);
  } while (seen != 2);
  out[blockIdx.x] = seen;
}
// Halves of the words are claimed too.
extern "C" __global__ void claim_halves(unsigned long long *slots, unsigned count) {
  unsigned i = blockIdx.x % count;
  while (atomicCAS(&slots[i], 0ull, 1ull) != 0)
    i = (i + 1) % count;
  atomicCAS((unsigned *)slots + count, 0, 0);
}
