// Writes and waits of streams: a stream writes and polls words of memory in its order.
#include "driver.h"

#include "emulated_cuda/memory.h"
#include "emulated_cuda/streams.h"

#include <atomic>
#include <functional>

namespace tally::preload_driver {

namespace {

using hooks::emulated::Context;
using hooks::emulated::GraphWork;
using tally::runtime::EmulatorDevice;
using tally::runtime::StreamId;

// The runtime's header has no name for it.
constexpr auto wordsNode = static_cast<cudaGraphNodeType>(CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);

/// Returns the word if kernels may use the memory and the word is aligned.
template <class Word> Word *wordAt(CUdeviceptr address) {
  if (address % sizeof(Word) != 0 ||
      !Context::get().device()->machine().view(address, sizeof(Word)))
    return nullptr;
  return static_cast<Word *>(pointerOf(address));
}

cudaError_t submitted(CUstream stream, GraphWork work) {
  return hooks::emulated::submit(*Context::get().device(), stream, wordsNode, std::move(work));
}

template <class Word> cudaError_t written(CUstream stream, CUdeviceptr address, Word value) {
  Word *word = wordAt<Word>(address);
  if (!word)
    return cudaErrorInvalidValue;
  return submitted(stream, [word, value](EmulatorDevice &device, StreamId on) {
    return device.enqueue(on, [word, value]() -> Result<void> {
      std::atomic_ref(*word).store(value, std::memory_order_release);
      return {};
    });
  });
}

template <class Word> bool holds(Word word, Word value, unsigned how) {
  switch (how) {
  case CU_STREAM_WAIT_VALUE_EQ:
    return word == value;
  case CU_STREAM_WAIT_VALUE_AND:
    return (word & value) != 0;
  case CU_STREAM_WAIT_VALUE_NOR:
    return ~(word | value) != 0;
  default:
    return static_cast<std::make_signed_t<Word>>(word - value) >= 0;
  }
}

template <class Word>
cudaError_t awaited(CUstream stream, CUdeviceptr address, Word value, unsigned flags) {
  Word *word = wordAt<Word>(address);
  unsigned how = flags & ~unsigned{CU_STREAM_WAIT_VALUE_FLUSH};
  if (!word || how > CU_STREAM_WAIT_VALUE_NOR)
    return cudaErrorInvalidValue;
  return submitted(stream, [word, value, how](EmulatorDevice &device, StreamId on) {
    return device.waitUntil(on, [word, value, how] {
      return holds(std::atomic_ref(*word).load(std::memory_order_acquire), value, how);
    });
  });
}

cudaError_t done(CUstream stream, const CUstreamBatchMemOpParams &each) {
  switch (each.operation) {
  case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    return awaited<cuuint32_t>(stream, each.waitValue.address, each.waitValue.value,
                               each.waitValue.flags);
  case CU_STREAM_MEM_OP_WAIT_VALUE_64:
    return awaited<cuuint64_t>(stream, each.waitValue.address, each.waitValue.value64,
                               each.waitValue.flags);
  case CU_STREAM_MEM_OP_WRITE_VALUE_32:
    return written<cuuint32_t>(stream, each.writeValue.address, each.writeValue.value);
  case CU_STREAM_MEM_OP_WRITE_VALUE_64:
    return written<cuuint64_t>(stream, each.writeValue.address, each.writeValue.value64);
  case CU_STREAM_MEM_OP_BARRIER:
  case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
    return cudaSuccess; // each operation comes behind the previous one
  default:
    return cudaErrorNotSupported;
  }
}

cudaError_t doneAll(CUstream stream, unsigned count, const CUstreamBatchMemOpParams *all,
                    unsigned flags) {
  if (!all || flags != 0 || count > 256)
    return cudaErrorInvalidValue;
  for (unsigned i = 0; i < count; ++i)
    if (cudaError_t bad = done(stream, all[i]); bad != cudaSuccess)
      return bad;
  return cudaSuccess;
}

} // namespace

} // namespace tally::preload_driver

using namespace tally::preload_driver;

// Both versions of each function are the same.
#define TALLY_WORD_FORMS(name, parameters, ...)                                                    \
  TALLY_STREAM_FORMS(name, parameters, __VA_ARGS__)                                                \
  TALLY_STREAM_FORMS(name##_v2, parameters, __VA_ARGS__)

extern "C" {

TALLY_WORD_FORMS(cuStreamWriteValue32,
                 (CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned),
                 written<cuuint32_t>(stream, address, value))
TALLY_WORD_FORMS(cuStreamWriteValue64,
                 (CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned),
                 written<cuuint64_t>(stream, address, value))
TALLY_WORD_FORMS(cuStreamWaitValue32,
                 (CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags),
                 awaited<cuuint32_t>(stream, address, value, flags))
TALLY_WORD_FORMS(cuStreamWaitValue64,
                 (CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags),
                 awaited<cuuint64_t>(stream, address, value, flags))
TALLY_WORD_FORMS(cuStreamBatchMemOp,
                 (CUstream stream, unsigned count, CUstreamBatchMemOpParams *all, unsigned flags),
                 doneAll(stream, count, all, flags))

} // extern "C"
