// Counts the launches that reach the driver, by CUPTI: CUDA_INJECTION64_PATH=liblaunches.so.
#include <cupti.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace {

std::atomic<long> count{0};

void CUPTIAPI see(void *, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *data) {
  if (domain != CUPTI_CB_DOMAIN_DRIVER_API ||
      static_cast<const CUpti_CallbackData *>(data)->callbackSite != CUPTI_API_EXIT)
    return;
  switch (id) {
  case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel:
  case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz:
  case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx:
  case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz:
  case CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel:
  case CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz:
    ++count;
    break;
  default:
    break;
  }
}

} // namespace

extern "C" int InitializeInjection() {
  CUpti_SubscriberHandle subscriber = nullptr;
  if (cuptiSubscribe(&subscriber, &see, nullptr) != CUPTI_SUCCESS ||
      cuptiEnableDomain(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API) != CUPTI_SUCCESS)
    return 0;
  std::atexit([] { std::fprintf(stderr, "cupti: %ld launches\n", count.load()); });
  return 1;
}
