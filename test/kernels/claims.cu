// Words that blocks claim once, by compare-and-swap from "empty": no block waits for another, since
// a claimed word does not change. Then similar kernels, each with a reason to wait.
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
// Keys of 64 bits in a table of any size, with separate values; the first value stays.
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
// Lists to whose end blocks append nodes: each link is written once. 0 is the end.
extern "C" __global__ void claim_links(unsigned *links, unsigned lists) {
  unsigned node = lists + blockIdx.x * blockDim.x + threadIdx.x, place = node % lists;
  while (unsigned next = atomicCAS(links + place, 0, node))
    place = next;
}
// Another block empties places in a full table.
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
// A called function writes the word.
__device__ __noinline__ void erase(unsigned *word) { *word = 0; }
extern "C" __global__ void claim_erased_by_callee(unsigned *table, unsigned mask) {
  unsigned key = blockIdx.x + 1, slot = key & mask;
  while (atomicCAS(&table[slot], 0, key) != 0)
    slot = slot + 1 & mask;
  erase(table + ((slot ^ 1) & mask));
}
// Values behind the keys in one array: the analysis cannot show that they are not keys.
extern "C" __global__ void claim_behind(unsigned *table, unsigned size) {
  unsigned key = blockIdx.x + 1, slot = key % size;
  while (atomicCAS(&table[slot], 0, key) != 0)
    slot = (slot + 1) % size;
  table[size + slot] = 0;
}
// Goes from slot to slot, and waits at each until another block has filled it.
extern "C" __global__ void claim_ring(unsigned *slots, unsigned count) {
  for (unsigned i = 0; i != count; ++i)
    while (atomicCAS(&slots[i], 0, 0) == 0)
      ;
  atomicCAS(&slots[blockIdx.x + count], 0, 1);
}
// Goes around until another block has filled one of the slots.
extern "C" __global__ void claim_round(unsigned *slots, unsigned count) {
  unsigned i = 0;
  while (atomicCAS(&slots[i], 0, 0) == 0)
    i = (i + 1) % count;
  atomicCAS(&slots[blockIdx.x], 0, 1);
}
// A word that one block fills and another one empties: from 0 to 1, from 1 to 2.
extern "C" __global__ void claim_stages(unsigned *slots, unsigned count) {
  unsigned i = blockIdx.x % count;
  while (atomicCAS(&slots[i], 1, 2) != 1)
    i = (i + 1) % count;
  atomicCAS(&slots[blockIdx.x % count], 0, 1);
}
// Success does not end the loop: another block must take the stored value first.
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
