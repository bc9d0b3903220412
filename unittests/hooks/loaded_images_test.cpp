// Code that is loaded at run time, and its variants, over a table of the few calls that they need.
#include "work/loaded_images.h"

#include "../support/files.h"

#include "tally/bundle/bundle_writer.h"
#include "tally/bundle/fatbin_writer.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>

using namespace tally;
using hooks::LoadedImages;

namespace {

constexpr std::string_view header = ".version 8.0\n.target sm_80\n.address_size 64\n";

/// A library is a number; a kernel is that number and the length of its name.
std::atomic<std::uintptr_t> librariesLoaded{0}, librariesUnloaded{0};

hooks::CudaApi calls() {
  hooks::CudaApi table;
  table.cudaSetDevice = [](int) { return cudaSuccess; };
  table.cudaGetDevice = [](int *device) {
    *device = 0;
    return cudaSuccess;
  };
  table.cudaDeviceGetAttribute = [](int *value, cudaDeviceAttr attribute, int) {
    *value = attribute == cudaDevAttrComputeCapabilityMajor ? 9 : 0;
    return cudaSuccess;
  };
  table.cudaThreadExchangeStreamCaptureMode = [](cudaStreamCaptureMode *) { return cudaSuccess; };
  table.cudaLibraryLoadData = [](cudaLibrary_t *library, const void *, cudaJitOption *, void **,
                                 unsigned, cudaLibraryOption *, void **, unsigned) {
    *library = reinterpret_cast<cudaLibrary_t>(++librariesLoaded);
    return cudaSuccess;
  };
  table.cudaLibraryUnload = [](cudaLibrary_t) {
    ++librariesUnloaded;
    return cudaSuccess;
  };
  table.cudaLibraryGetKernel = [](cudaKernel_t *kernel, cudaLibrary_t library, const char *name) {
    *kernel = reinterpret_cast<cudaKernel_t>(reinterpret_cast<std::uintptr_t>(library) * 1000 +
                                             std::string_view(name).size());
    return cudaSuccess;
  };
  return table;
}

/// A store in a folder of the test, and the object that reads it.
struct Loading {
  Loading() { images.serve(api, 0); }
  ~Loading() { images.stop(); }

  /// Returns an image of one kernel; its bundle is in the store.
  std::string image(const std::string &kernel, bool hasVariants = true) {
    std::string text = std::string(header) + ".visible .entry " + kernel + "() { ret; }\n";
    keepBundle(text, text, kernel, hasVariants);
    return text;
  }
  /// Returns a container with that kernel for an architecture; its bundle is in the store.
  std::string container(const std::string &kernel, std::uint32_t arch, std::uint64_t flags = 0,
                        bundle::FatbinKind kind = bundle::FatbinKind::Ptx) {
    std::string text = image(kernel);
    bundle::NewFatbinEntry entry;
    entry.kind = kind;
    entry.arch = arch;
    entry.flags |= flags;
    entry.payload = text;
    bundle::FatbinWriter writer;
    REQUIRE(writer.add(entry));
    keepBundle(writer.container(), text, kernel, true);
    return writer.container();
  }
  void keepBundle(std::string_view bytes, const std::string &text, const std::string &kernel,
                  bool hasVariants) {
    bundle::Bundle made;
    made.kernels.emplace_back().name = kernel;
    Verdict &guard = made.kernels.front().verdicts.emplace_back();
    guard.kind = Kind::Guard;
    guard.status = hasVariants ? Status::Emitted : Status::Refused;
    guard.reason = hasVariants ? "" : "some-reason";
    made.images.push_back({bundle::ImageFormat::Ptx, 80, text});
    std::ofstream(store.bundleOf(bundle::imageKey(bytes)), std::ios::binary) << bundle::write(made);
  }
  bool comesToHaveVariants(const void *kernel) {
    for (int i = 0; i < 2000 && !images.hasVariants(kernel); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return images.hasVariants(kernel);
  }
  const bundle::Kernel *factsOf(const void *kernel) { return registry.find(api, kernel).facts; }

  test::TemporaryFolder folder;
  bundle::VariantStore store{folder.path.string()};
  hooks::CudaApi api = calls();
  hooks::Registry registry;
  LoadedImages images{registry, folder.path.string()};
};

const void *handle(std::uintptr_t number) { return reinterpret_cast<const void *>(number); }

} // namespace

TEST_CASE("a kernel's variants are found by the bytes of its image, whichever comes first") {
  Loading l;
  const void *module = handle(1), *kernel = handle(10), *other = handle(11);
  SUBCASE("the kernel is asked for at once") {
    l.images.loaded(l.api, module, l.image("one"));
    l.images.found(l.api, module, "one", kernel);
  }
  SUBCASE("behind the loading") {
    l.images.loaded(l.api, module, l.image("one"));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    l.images.found(l.api, module, "one", kernel);
  }
  SUBCASE("the bundle comes last") {
    std::string text = l.image("one");
    std::string path = l.store.bundleOf(bundle::imageKey(text));
    std::rename(path.c_str(), (path + "x").c_str());
    l.images.loaded(l.api, module, text);
    l.images.found(l.api, module, "one", kernel);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    CHECK_FALSE(l.images.hasVariants(kernel));
    std::rename((path + "x").c_str(), path.c_str());
  }
  CHECK(l.comesToHaveVariants(kernel));
  CHECK(l.factsOf(kernel)->name == "one");
  l.images.alias(l.api, kernel, other);
  CHECK(l.images.hasVariants(other));
  CHECK(&l.registry.find(l.api, other) == &l.registry.find(l.api, kernel));
  // The registry forgets the handles of other kernels, not of these.
  l.registry.forgetHandles();
  CHECK(l.factsOf(other)->name == "one");
}

TEST_CASE("an answer that the thread has got before ends with each change") {
  Loading l;
  const void *kernel = handle(10), *other = handle(11), *late = handle(20);
  l.images.loaded(l.api, handle(1), l.image("one"));
  l.images.found(l.api, handle(1), "one", kernel);
  REQUIRE(l.comesToHaveVariants(kernel));
  CHECK_FALSE(l.images.hasVariants(other));
  l.images.alias(l.api, kernel, other);
  CHECK(l.images.hasVariants(other));
  std::string text = l.image("late"), path = l.store.bundleOf(bundle::imageKey(text));
  std::rename(path.c_str(), (path + "x").c_str());
  l.images.loaded(l.api, handle(2), text);
  l.images.found(l.api, handle(2), "late", late);
  CHECK_FALSE(l.images.hasVariants(late));
  std::rename((path + "x").c_str(), path.c_str());
  CHECK(l.comesToHaveVariants(late));
  l.images.clear();
  for (const void *each : {kernel, other, late})
    CHECK_FALSE(l.images.hasVariants(each));
}

TEST_CASE("a handle that means another kernel now has not the variants of the one before") {
  Loading l;
  const void *module = handle(1), *kernel = handle(10);
  l.images.loaded(l.api, module, l.image("before"));
  l.images.found(l.api, module, "before", kernel);
  REQUIRE(l.comesToHaveVariants(kernel));
  SUBCASE("its module was unloaded") {
    std::uintptr_t unloaded = librariesUnloaded;
    l.images.unloaded(module);
    CHECK(librariesUnloaded == unloaded + 1);
    CHECK_FALSE(l.images.hasVariants(kernel));
    CHECK_FALSE(l.factsOf(kernel));
  }
  SUBCASE("its module went with its context, unseen") {}
  SUBCASE("everything went") { l.images.clear(); }
  const void *later = handle(2);
  l.images.loaded(l.api, later, l.image("after"));
  l.images.found(l.api, later, "after", kernel);
  CHECK(l.comesToHaveVariants(kernel));
  CHECK(l.factsOf(kernel)->name == "after");
}

TEST_CASE("a module's handle that means a container now is not taken for the module before") {
  Loading l;
  const void *module = handle(1), *kernel = handle(10);
  l.images.loaded(l.api, module, l.image("one"));
  l.images.found(l.api, module, "one", handle(11));
  REQUIRE(l.comesToHaveVariants(handle(11)));
  using namespace std::string_view_literals;
  l.images.loaded(l.api, module, "\x50\xed\x55\xba\0\0\0\0 and so on"sv);
  l.images.found(l.api, module, "one", kernel);
  CHECK_FALSE(l.images.knows(kernel));
  CHECK_FALSE(l.images.hasVariants(kernel));
}

TEST_CASE("a container has variants where the device, of 9.0, can take PTX of it") {
  using bundle::fatbinArchSpecific, bundle::fatbinFamily;
  Loading l;
  const void *module = handle(1), *kernel = handle(10);
  auto load = [&](const std::string &container) {
    l.images.loaded(l.api, module, container);
    l.images.found(l.api, module, "one", kernel);
    return l.images.knows(kernel);
  };
  std::string container;
  SUBCASE("of an earlier one") { container = l.container("one", 80); }
  SUBCASE("of its own") { container = l.container("one", 90); }
  SUBCASE("of its own alone") { container = l.container("one", 90, fatbinArchSpecific); }
  SUBCASE("of no other") {
    CHECK_FALSE(load(l.container("one", 100)));
    CHECK_FALSE(load(l.container("one", 80, fatbinArchSpecific)));
    CHECK_FALSE(load(l.container("one", 80, fatbinFamily)));
    CHECK_FALSE(load(l.container("one", 90, 0, bundle::FatbinKind::Elf)));
    return;
  }
  CHECK(load(container));
  CHECK(l.comesToHaveVariants(kernel));
}

TEST_CASE("a library's module has the library's kernels and variables") {
  Loading l;
  const void *library = handle(1), *module = handle(2), *kernel = handle(10);
  l.images.loaded(l.api, library, l.image("one"));
  l.images.aliasModule(library, module);
  l.images.found(l.api, module, "one", kernel);
  REQUIRE(l.comesToHaveVariants(kernel));
  SUBCASE("a variable was asked for") {
    // A graph may hold the kernel's record.
    const hooks::KernelRecord &record = l.registry.find(l.api, kernel);
    CHECK_FALSE(record.hasStaleVariants);
    l.images.foundVariable(module);
    CHECK_FALSE(l.images.hasVariants(kernel));
    CHECK(record.hasStaleVariants);
  }
  SUBCASE("a variable was asked for of the module that a kernel is in") {
    l.images.aliasModuleOf(kernel, handle(4));
    l.images.foundVariable(handle(4));
    CHECK_FALSE(l.images.hasVariants(kernel));
  }
  SUBCASE("the module of another kernel says nothing") {
    l.images.aliasModuleOf(handle(12), module);
    l.images.foundVariable(module);
    CHECK_FALSE(l.images.hasVariants(kernel));
  }
  SUBCASE("the library is gone") {
    l.images.unloaded(library);
    l.images.found(l.api, module, "one", handle(11));
    CHECK_FALSE(l.images.knows(handle(11)));
  }
  SUBCASE("the handle is another library's, which is not known") {
    l.images.aliasModule(handle(3), module);
    l.images.found(l.api, module, "one", handle(11));
    CHECK_FALSE(l.images.knows(handle(11)));
  }
}

TEST_CASE("a link of one PTX alone has that text") {
  hooks::LinkInputs links;
  const void *link = handle(1);
  CHECK(links.onlyPtx(link).empty());
  links.add(link, true, std::string("text\0", 5));
  CHECK(links.onlyPtx(link) == "text");
  SUBCASE("not with another one") { links.add(link, true, "more"); }
  SUBCASE("not with machine code") { links.add(link, false, "code"); }
  SUBCASE("not behind its end") { links.forget(link); }
  CHECK(links.onlyPtx(link).empty());
  links.forget(link);
  links.add(link, false, "code");
  links.add(link, true, "text");
  CHECK(links.onlyPtx(link).empty());
}

TEST_CASE("an image whose variable the program has asked for has no variants any more") {
  Loading l;
  const void *module = handle(1), *kernel = handle(10);
  l.images.loaded(l.api, module, l.image("one"));
  l.images.found(l.api, module, "one", kernel);
  REQUIRE(l.comesToHaveVariants(kernel));
  l.images.foundVariable(module);
  CHECK_FALSE(l.images.hasVariants(kernel));
}

TEST_CASE(
    "a kernel that was refused has no facts that launches could go by, but is one of its image") {
  Loading l;
  const void *module = handle(1), *kernel = handle(10), *unknown = handle(12);
  l.images.loaded(l.api, module, l.image("one", false));
  l.images.found(l.api, module, "one", kernel);
  l.images.found(l.api, module, "of_no_bundle", unknown);
  CHECK(l.comesToHaveVariants(kernel));
  CHECK_FALSE(l.factsOf(kernel)->hasVariants());
  CHECK_FALSE(l.factsOf(unknown));
}
