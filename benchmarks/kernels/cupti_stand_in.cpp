// A stand-in for CUPTI, for cupti_log's test: delivers two kernels and a call, as CUPTI would
// behind cuptiActivityFlushAll().
#include <cupti.h>

#include <cstdint>

namespace {

CUpti_BuffersCallbackRequestFunc request;
CUpti_BuffersCallbackCompleteFunc complete;
CUpti_TimestampCallbackFunc clockNow;
int asked = 0;

struct Records {
  CUpti_ActivityKernel10 kernels[2];
  CUpti_ActivityAPI call;
  CUpti_Activity other;
} records;
int brought = 0;

CUpti_ActivityKernel10 kernel(std::uint64_t begin, std::int32_t blocks, const char *name) {
  CUpti_ActivityKernel10 made{};
  made.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  made.start = begin;
  made.end = begin + 5000;
  made.gridX = blocks;
  made.gridY = 2;
  made.gridZ = 1;
  made.blockX = 1024;
  made.blockY = made.blockZ = 1;
  made.dynamicSharedMemory = 4096;
  made.streamId = 7;
  made.correlationId = 11;
  made.name = name;
  return made;
}

} // namespace

extern "C" {

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc give,
                                           CUpti_BuffersCallbackCompleteFunc take) {
  request = give;
  complete = take;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc function) {
  clockNow = function;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityEnable(CUpti_ActivityKind) {
  ++asked;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityFlushAll(std::uint32_t) {
  std::uint64_t now = clockNow();
  records.kernels[0] = kernel(now, 100000, "first<int, 2>");
  records.kernels[1] = kernel(now + 10000, 3, "second");
  records.call = {CUPTI_ACTIVITY_KIND_DRIVER, 307, now + 20000, now + 21000, 1, 99, 12, 0};
  records.other.kind = CUPTI_ACTIVITY_KIND_MEMSET;
  std::uint8_t *buffer = nullptr;
  std::size_t bytes = 0, most = 1;
  request(&buffer, &bytes, &most);
  complete(nullptr, 0, buffer, bytes, asked == 3 ? 1 : 0);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNextRecord(std::uint8_t *, std::size_t, CUpti_Activity **record) {
  CUpti_Activity *all[] = {reinterpret_cast<CUpti_Activity *>(&records.kernels[0]), &records.other,
                           reinterpret_cast<CUpti_Activity *>(&records.call),
                           reinterpret_cast<CUpti_Activity *>(&records.kernels[1])};
  if (brought == 4)
    return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = all[brought++];
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, std::uint32_t, std::size_t *dropped) {
  *dropped = 6;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiGetResultString(CUptiResult, const char **text) {
  *text = "stand-in";
  return CUPTI_SUCCESS;
}
int InitializeInjection();
}

int main() { return InitializeInjection() == 1 ? 0 : 1; }
