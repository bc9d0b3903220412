// ld and st of every width, extension and vector length. PTX ISA 9.7.9.8 and 9.7.9.11.
//
// Each element is one relaxed atomic access of its size, so an access never sees a part of a
// concurrent write by another block (another host thread), as on a GPU. It costs no more than a
// plain access.
#include "tables.h"

#include "resolve.h"

#include <type_traits>

namespace tally::emulator::TALLY_EMULATOR_ISA {
namespace {

struct Wide16 {
  std::uint64_t low, high;
};

template <class M> [[gnu::always_inline]] inline M read(std::uint64_t address) {
  if constexpr (sizeof(M) == 16) {
    const auto *word = reinterpret_cast<const std::uint64_t *>(address);
    return {__atomic_load_n(word, __ATOMIC_RELAXED), __atomic_load_n(word + 1, __ATOMIC_RELAXED)};
  } else {
    return __atomic_load_n(reinterpret_cast<const M *>(address), __ATOMIC_RELAXED);
  }
}
template <class M> [[gnu::always_inline]] inline void write(std::uint64_t address, M value) {
  if constexpr (sizeof(M) == 16) {
    auto *word = reinterpret_cast<std::uint64_t *>(address);
    __atomic_store_n(word, value.low, __ATOMIC_RELAXED);
    __atomic_store_n(word + 1, value.high, __ATOMIC_RELAXED);
  } else {
    __atomic_store_n(reinterpret_cast<M *>(address), value, __ATOMIC_RELAXED);
  }
}

/// M: the type in memory, R: the type of the register's row (a wider R extends M by its sign or
/// zeros).
template <class M, class R, std::uint32_t N>
Status load(Warp &warp, const Op &op, std::uint32_t mask) {
  alignas(64) std::uint64_t host[warpSize];
  if (!resolve(warp, op, mask, sizeof(M) * N, AccessKind::Read, host))
    return Status::Fault;
  R *d[N];
  for (std::uint32_t n = 0; n < N; ++n)
    d[n] = op.slot[n] == noSlot ? nullptr : warp.row<R>(op.slot[n]);
  forLanes(mask, [&](std::uint32_t i) {
    for (std::uint32_t n = 0; n < N; ++n)
      if (N == 1 || d[n])
        d[n][i] = static_cast<R>(read<M>(host[i] + n * sizeof(M)));
  });
  return Status::Next;
}

template <class M, class R, std::uint32_t N>
Status store(Warp &warp, const Op &op, std::uint32_t mask) {
  alignas(64) std::uint64_t host[warpSize];
  if (!resolve(warp, op, mask, sizeof(M) * N, AccessKind::Write, host))
    return Status::Fault;
  const R *s[N];
  for (std::uint32_t n = 0; n < N; ++n)
    s[n] = warp.row<R>(op.slot[n]);
  forLanes(mask, [&](std::uint32_t i) {
    for (std::uint32_t n = 0; n < N; ++n)
      write<M>(host[i] + n * sizeof(M), static_cast<M>(s[n][i]));
  });
  return Status::Next;
}

template <template <class, class, std::uint32_t> class Pick, class M, class R>
Handler counted(std::uint32_t count) {
  switch (count) {
  case 1:
    return Pick<M, R, 1>::handler;
  case 2:
    return Pick<M, R, 2>::handler;
  case 4:
    if constexpr (sizeof(M) <= 8)
      return Pick<M, R, 4>::handler;
    return nullptr;
  default:
    return nullptr;
  }
}

template <class M, class R, std::uint32_t N> struct Load {
  static constexpr Handler handler = load<M, R, N>;
};
template <class M, class R, std::uint32_t N> struct Store {
  static constexpr Handler handler = store<M, R, N>;
};

template <template <class, class, std::uint32_t> class Pick, class M>
Handler sized(std::uint32_t registerBytes, std::uint32_t count) {
  // The register's type has the signedness of M, so that static_cast extends as it should.
  using R16 = std::conditional_t<std::is_signed_v<M>, std::int16_t, std::uint16_t>;
  using R32 = std::conditional_t<std::is_signed_v<M>, std::int32_t, std::uint32_t>;
  using R64 = std::conditional_t<std::is_signed_v<M>, std::int64_t, std::uint64_t>;
  switch (registerBytes) {
  case 2:
    return sizeof(M) <= 2 ? counted<Pick, M, R16>(count) : nullptr;
  case 4:
    return sizeof(M) <= 4 ? counted<Pick, M, R32>(count) : nullptr;
  case 8:
    return counted<Pick, M, R64>(count);
  default:
    return nullptr;
  }
}

template <template <class, class, std::uint32_t> class Pick>
Handler access(Type type, std::uint32_t registerBytes, std::uint32_t count) {
  switch (type) {
  case Type::B8:
  case Type::U8:
    return sized<Pick, std::uint8_t>(registerBytes, count);
  case Type::S8:
    return sized<Pick, std::int8_t>(registerBytes, count);
  case Type::S16:
    return sized<Pick, std::int16_t>(registerBytes, count);
  case Type::S32:
    return sized<Pick, std::int32_t>(registerBytes, count);
  case Type::B128:
    return registerBytes == 16 ? counted<Pick, Wide16, Wide16>(count) : nullptr;
  default:
    break;
  }
  switch (sizeOf(type)) {
  case 2:
    return sized<Pick, std::uint16_t>(registerBytes, count);
  case 4:
    return sized<Pick, std::uint32_t>(registerBytes, count);
  case 8:
    return sized<Pick, std::uint64_t>(registerBytes, count);
  default:
    return nullptr;
  }
}

} // namespace

Handler loadHandler(Type type, std::uint32_t registerBytes, std::uint32_t count) {
  return access<Load>(type, registerBytes, count);
}

Handler storeHandler(Type type, std::uint32_t registerBytes, std::uint32_t count) {
  return access<Store>(type, registerBytes, count);
}

} // namespace tally::emulator::TALLY_EMULATOR_ISA
