// A tool that listens to NVTX, as profilers do: writes a line for each range that begins ("begin
// NUMBER DOMAIN TEXT") and ends ("end NUMBER") to the file that RANGES_FILE names.
#include <nvtx3/nvToolsExt.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace {

std::FILE *output() {
  static std::FILE *const file = std::fopen(std::getenv("RANGES_FILE"), "w");
  return file;
}

nvtxDomainHandle_t createDomain(const char *name) {
  return reinterpret_cast<nvtxDomainHandle_t>(const_cast<char *>(name));
}

nvtxRangeId_t start(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *attributes) {
  static std::atomic<nvtxRangeId_t> next{1};
  nvtxRangeId_t number = next++;
  std::fprintf(output(), "begin %llu %s %s\n", static_cast<unsigned long long>(number),
               reinterpret_cast<const char *>(domain), attributes->message.ascii);
  std::fflush(output());
  return number;
}

void end(nvtxDomainHandle_t, nvtxRangeId_t number) {
  std::fprintf(output(), "end %llu\n", static_cast<unsigned long long>(number));
  std::fflush(output());
}

} // namespace

extern "C" __attribute__((visibility("default"))) int
InitializeInjectionNvtx2(NvtxGetExportTableFunc_t table) {
  const auto *callbacks = static_cast<const NvtxExportTableCallbacks *>(table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable functions = nullptr;
  unsigned count = 0;
  if (!callbacks ||
      callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &functions, &count) == 0)
    return 0;
  *functions[NVTX_CBID_CORE2_DomainCreateA] = reinterpret_cast<NvtxFunctionPointer>(createDomain);
  *functions[NVTX_CBID_CORE2_DomainRangeStartEx] = reinterpret_cast<NvtxFunctionPointer>(start);
  *functions[NVTX_CBID_CORE2_DomainRangeEnd] = reinterpret_cast<NvtxFunctionPointer>(end);
  return 1;
}
