// Links one PTX at run time. The machine code is an ELF header with that text behind it, so that
// modules can load it, and code that inspects it does not take it for PTX.
#include "driver.h"
#include "machine_code.h"

#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

struct CUlinkState_st {
  std::string text, code;
};

namespace {

CUresult addText(CUlinkState link, CUjitInputType kind, std::string text) {
  if (!link)
    return CUDA_ERROR_INVALID_VALUE;
  if (kind != CU_JIT_INPUT_PTX || !link->text.empty())
    return CUDA_ERROR_NOT_SUPPORTED;
  link->text = std::move(text);
  return CUDA_SUCCESS;
}

} // namespace

using namespace tally::preload_driver;

extern "C" {

CUresult cuLinkCreate_v2(unsigned, CUjit_option *, void **, CUlinkState *result) {
  return inContext([&] {
    *result = new CUlinkState_st;
    return CUDA_SUCCESS;
  });
}
CUresult cuLinkAddData_v2(CUlinkState link, CUjitInputType kind, void *data, size_t bytes,
                          const char *, unsigned, CUjit_option *, void **) {
  return inContext(
      [&] { return addText(link, kind, std::string(static_cast<const char *>(data), bytes)); });
}
CUresult cuLinkAddFile_v2(CUlinkState link, CUjitInputType kind, const char *path, unsigned,
                          CUjit_option *, void **) {
  return inContext([&] {
    std::ifstream file(path, std::ios::binary);
    if (!file)
      return CUDA_ERROR_FILE_NOT_FOUND;
    return addText(link, kind, std::string((std::istreambuf_iterator<char>(file)), {}));
  });
}
CUresult cuLinkComplete(CUlinkState link, void **code, size_t *bytes) {
  return inContext([&] {
    link->code = machineCodeOf(link->text);
    *code = link->code.data();
    *bytes = link->code.size();
    return CUDA_SUCCESS;
  });
}
CUresult cuLinkDestroy(CUlinkState link) {
  return inContext([&] {
    delete link;
    return CUDA_SUCCESS;
  });
}

} // extern "C"
