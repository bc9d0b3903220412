// Does the work of nvcc's host code for tests: registers fatbins of PTX, and launches kernels
// through emulatedApi().
#ifndef TALLY_UNITTESTS_EMULATED_PROGRAM_H
#define TALLY_UNITTESTS_EMULATED_PROGRAM_H

#include "tables/cuda_api.h"

#include "tally/bundle/fatbin_writer.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tally::hooks {

inline const std::string ptxHeader = ".version 8.0\n.target sm_90\n.address_size 64\n";

inline const CudaApi &cuda() { return emulatedApi(); }

struct PtxEntry {
  std::string text;
  std::uint32_t arch = 90;
  bundle::Compression compression = bundle::Compression::None;
  std::uint64_t flags = 0x11;
};

inline std::string container(const std::vector<PtxEntry> &entries) {
  bundle::FatbinWriter writer;
  for (const PtxEntry &each : entries) {
    bundle::NewFatbinEntry entry;
    entry.kind = bundle::FatbinKind::Ptx;
    entry.major = 8;
    entry.arch = each.arch;
    entry.flags = each.flags;
    entry.compression = each.compression;
    entry.payload = each.text;
    REQUIRE(bool(writer.add(entry)));
  }
  return writer.container();
}

struct Prelinked {
  std::vector<std::string> containers;
};

/// A registered fatbin, with one container, or several as linked RDC code has.
class Program {
public:
  explicit Program(const std::vector<PtxEntry> &entries) : containers{container(entries)} {
    wrapper = {bundle::fatbinWrapperMagic, 1, containers[0].data(), nullptr};
    handle = cuda().__cudaRegisterFatBinary(&wrapper);
  }
  explicit Program(Prelinked prelinked) : containers(std::move(prelinked.containers)) {
    for (const std::string &each : containers)
      pointers.push_back(each.data());
    pointers.push_back(nullptr);
    wrapper = {bundle::fatbinWrapperMagic, 2, containers[0].data(), pointers.data()};
    handle = cuda().__cudaRegisterFatBinary(&wrapper);
  }
  ~Program() { cuda().__cudaUnregisterFatBinary(handle); }
  Program(const Program &) = delete;

  /// Returns the host function that stands for the kernel.
  const void *kernel(const char *name) {
    auto host = std::make_unique<char>();
    cuda().__cudaRegisterFunction(handle, host.get(), host.get(), name, -1, nullptr, nullptr,
                                  nullptr, nullptr, nullptr);
    hosts.push_back(std::move(host));
    return hosts.back().get();
  }
  const void *variable(const char *name, std::size_t bytes) {
    auto host = std::make_unique<char>();
    cuda().__cudaRegisterVar(handle, host.get(), host.get(), name, 0, bytes, 0, 0);
    hosts.push_back(std::move(host));
    return hosts.back().get();
  }
  void managed(void **pointer, const char *name, std::size_t bytes) {
    cuda().__cudaRegisterManagedVar(handle, pointer, nullptr, name, 0, bytes, 0, 0);
    (void)cuda().__cudaInitModule(handle);
  }

private:
  struct Wrapper {
    std::uint32_t magic, version;
    const void *container;
    const void *const *prelinked;
  };
  std::vector<std::string> containers;
  std::vector<const void *> pointers;
  Wrapper wrapper{};
  void **handle = nullptr;
  std::vector<std::unique_ptr<char>> hosts;
};

template <class... Args>
cudaError_t launch(const void *kernel, dim3 grid, dim3 block, std::size_t shared,
                   cudaStream_t stream, Args... args) {
  void *pointers[] = {static_cast<void *>(&args)..., nullptr};
  return cuda().cudaLaunchKernel(kernel, grid, block, pointers, shared, stream);
}

/// A device buffer of ints.
class Ints {
public:
  explicit Ints(std::size_t count) : count(count) {
    REQUIRE(cuda().cudaMalloc(reinterpret_cast<void **>(&device), count * sizeof(int)) ==
            cudaSuccess);
  }
  ~Ints() { CHECK(cuda().cudaFree(device) == cudaSuccess); }
  Ints(const Ints &) = delete;
  std::vector<int> values() const {
    std::vector<int> result(count);
    CHECK(cuda().cudaMemcpy(result.data(), device, count * sizeof(int), cudaMemcpyDeviceToHost) ==
          cudaSuccess);
    return result;
  }
  int *device = nullptr;

private:
  std::size_t count;
};

/// Returns a kernel that stores `value` through its one argument.
inline std::string storing(const std::string &name, int value,
                           const std::string &linkage = ".visible") {
  return linkage + " .entry " + name + "(.param .u64 out) {\n.reg .b64 %a;\n.reg .b32 %v;\n" +
         "ld.param.u64 %a, [out];\nmov.u32 %v, " + std::to_string(value) +
         ";\nst.global.u32 [%a], %v;\nret;\n}\n";
}

/// Runs `scenario` in a process of its own, because a fault ends the device of its process. Returns
/// the process's standard error and standard output, and checks that it ran to its end. The parent
/// must not have opened the device: its threads do not exist in the child.
struct Outcome {
  std::string errors, output;
};
Outcome inChild(const std::function<void()> &scenario);
/// Ends the child with an error unless `holds`, since CHECK in a child counts nothing in the
/// parent.
void demand(bool holds, const char *what);

} // namespace tally::hooks

#endif
