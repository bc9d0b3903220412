// The rules that driver_api.def names: the actions of the wrappers of the driver's calls.
#ifndef TALLY_LIB_HOOKS_INTERCEPT_DRIVER_RULES_H
#define TALLY_LIB_HOOKS_INTERCEPT_DRIVER_RULES_H

#include "intercept/driver_hook.h"
#include "intercept/wrappers.h"
#include "process/hooks.h"

#include <cuda.h>
#include <cudaTypedefs.h>

#include <cstddef>
#include <memory>
#include <tuple>

namespace tally::hooks {

/// A function of the driver, without the hook.
template <class... Parameters> class DriverCall {
public:
  explicit DriverCall(void *entry) : entry(reinterpret_cast<Function>(entry)) {}
  CUresult operator()(Parameters... parameters) const { return entry(parameters...); }

private:
  using Function = CUresult (*)(Parameters...);
  Function entry;
};

/// The two number errors alike.
inline cudaError_t runtimeStatus(CUresult status) { return static_cast<cudaError_t>(status); }
inline CUresult driverStatus(cudaError_t status) { return static_cast<CUresult>(status); }

inline void *pointerTo(CUdeviceptr memory) { return reinterpret_cast<void *>(memory); }

/// The copy or fill that a call of the rule Range makes, by its parameters: fills by elements, and
/// copies.
template <class Element> ForeignCopy rangeOf(CUdeviceptr to, Element value, std::size_t count) {
  ForeignCopy fill;
  fill.isFill = true;
  fill.to = pointerTo(to);
  auto byte = static_cast<unsigned char>(value);
  if (value == static_cast<Element>(0x01010101u * byte))
    fill.byte = byte;
  fill.isAligned = to % sizeof(Element) == 0;
  fill.bytes = count * sizeof(Element);
  return fill;
}
inline ForeignCopy copyOf(void *to, const void *from, std::size_t bytes, bool mayBeKernel) {
  ForeignCopy copy;
  copy.to = to;
  copy.from = from;
  copy.mayBeKernel = mayBeKernel;
  copy.bytes = bytes;
  return copy;
}
inline ForeignCopy rangeOf(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
  return copyOf(pointerTo(to), pointerTo(from), bytes, true);
}
inline ForeignCopy rangeOf(CUdeviceptr to, const void *from, std::size_t bytes) {
  return copyOf(pointerTo(to), from, bytes, false);
}
inline ForeignCopy rangeOf(void *to, CUdeviceptr from, std::size_t bytes) {
  return copyOf(to, pointerTo(from), bytes, false);
}

/// Stream 0 in a call that uses it for the thread's own default stream.
inline CUstream ownOf(CUstream stream) { return stream ? stream : CU_STREAM_PER_THREAD; }

/// Whether a call comes from outside the hooks. A program without kernels registers no code; its
/// libraries' launches are counted all the same.
inline bool isForeign() {
  if (InHook::any() || isOff())
    return false;
  Hooks::shared().libraries().hooked(api());
  return true;
}
inline const CudaApi &foreignApi() { return Hooks::shared().libraries().api(); }

/// Returns `hooked()`; where the process takes no part in sharing yet, makes the call itself.
template <class Call, class Hooked> CUresult asForeign(const Call &call, const Hooked &hooked) {
  if (!isForeign())
    return call();
  return driverStatus(
      Hooks::shared().libraries().call([&] { return runtimeStatus(call()); }, hooked));
}

/// The function type that cuGetProcAddress returns for cuGraphInstantiate since 12.0, and before.
using PFN_cuGraphInstantiate_v12000 = PFN_cuGraphInstantiateWithFlags_v11040;
using PFN_cuGraphInstantiate_v11000 = CUresult (*)(CUgraphExec *, CUgraph, CUgraphNode *, char *,
                                                   std::size_t);
using PFN_cuGraphInstantiate_v10000 = PFN_cuGraphInstantiate_v11000;

// Each rule gets the stream that orders the call, the call and its parameters.

template <class Real, class... P> CUresult byRule_Launch(CUstream stream, Real real, P... p) {
  auto call = [&] { return real(p...); };
  auto never = [] { return TakenLaunch{nullptr, InTurnReason::OtherCall}; };
  auto see = [](HighFootprints &to, const CudaApi &table, StreamState &state) {
    to.unknown(table, state);
  };
  static constexpr char any = 0; // identity of all unknown launches
  return isForeign() ? Hooks::shared().libraries().launch(stream, {&any, 1}, call, never, see)
                     : call();
}

template <class Real, class... P> CUresult byRule_Stream(CUstream stream, Real real, P... p) {
  auto call = [&] { return real(p...); };
  return asForeign(call, [&] {
    return Hooks::shared().rules().stream(foreignApi(), stream,
                                          [&] { return runtimeStatus(call()); });
  });
}
/// A copy or fill that the driver may make with a kernel.
template <class Real, class... P> CUresult byRule_Fill(CUstream stream, Real real, P... p) {
  if (isForeign())
    Hooks::shared().copies().runsDriverKernel(foreignApi(), stream);
  return byRule_Stream(stream, real, p...);
}
/// A copy or fill of one range of memory, through the queue where possible.
template <class Real, class To, class What>
CUresult byRule_Range(CUstream stream, Real real, To to, What what, std::size_t count,
                      CUstream given) {
  auto call = [&] { return real(to, what, count, given); };
  return asForeign(call, [&] {
    ForeignCopy copy = rangeOf(to, what, count);
    copy.context = driverLaunches().contextOfThread();
    copy.on = [=](cudaStream_t on) { return runtimeStatus(real(to, what, count, on)); };
    return Hooks::shared().copies().foreignCopy(foreignApi(), stream, copy,
                                                [&] { return runtimeStatus(call()); });
  });
}
/// A host function: called later, in its turn.
template <class Real>
CUresult byRule_Host(CUstream stream, Real real, CUstream given, CUhostFn function, void *data) {
  auto call = [=] { return runtimeStatus(real(given, function, data)); };
  return asForeign([&] { return real(given, function, data); },
                   [&] {
                     return Hooks::shared().rules().queue(
                         foreignApi(), stream, [&] { return function != nullptr; }, call);
                   });
}

// Memory.

template <class Real, class... P>
CUresult byRule_Allocate(CUstream, Real real, CUdeviceptr *made, std::size_t bytes, P... p) {
  auto call = [&] { return real(made, bytes, p...); };
  if (!isForeign())
    return call();
  return driverStatus(Hooks::shared().allocations().allocate(
      foreignApi(), bytes, [&] { return runtimeStatus(call()); },
      [&] { return MemoryAccount::Piece{pointerTo(*made), bytes}; }));
}
template <class Real> CUresult byRule_Free(CUstream stream, Real real, CUdeviceptr memory) {
  auto call = [&] { return byRule_Drain(stream, [&] { return real(memory); }); };
  if (!isForeign())
    return call();
  return driverStatus(
      Hooks::shared().memory().release(pointerTo(memory), [&] { return runtimeStatus(call()); }));
}
template <class Real, class... Pool>
CUresult byRule_AllocateAsync(CUstream stream, Real real, CUdeviceptr *made, std::size_t bytes,
                              Pool... pool) {
  auto call = [&] { return real(made, bytes, pool...); };
  return asForeign(call, [&] {
    auto address = reinterpret_cast<void **>(made);
    return Hooks::shared().allocations().allocateAsync(foreignApi(), address, bytes, stream,
                                                       [&] { return runtimeStatus(call()); });
  });
}
template <class Real>
CUresult byRule_FreeAsync(CUstream stream, Real real, CUdeviceptr memory, CUstream given) {
  auto call = [=] { return runtimeStatus(real(memory, given)); };
  return asForeign([&] { return real(memory, given); },
                   [&] {
                     return Hooks::shared().allocations().freeAsync(foreignApi(), pointerTo(memory),
                                                                    stream, call);
                   });
}
template <class Real>
CUresult byRule_Info(CUstream, Real real, std::size_t *free, std::size_t *total) {
  if (!isForeign() || !free || !total)
    return real(free, total);
  return driverStatus(Hooks::shared().memory().info(foreignApi(), free, total));
}

template <class Real, class... P> CUresult byRule_Drain(CUstream, Real real, P... p) {
  auto call = [&] { return real(p...); };
  return isForeign() ? Hooks::shared().rules().drained(call) : call();
}
template <class Real, class... P> CUresult byRule_Device(CUstream, Real real, P... p) {
  auto call = [&] { return real(p...); };
  return asForeign(call, [&] {
    return Hooks::shared().synchronizeDevice([&] { return runtimeStatus(call()); });
  });
}
template <class Real, class... P> CUresult byRule_Forget(CUstream, Real real, P... p) {
  if (!isForeign())
    return real(p...);
  return Hooks::shared().libraries().kernels().changing([&] {
    CUresult status = real(p...);
    Hooks::shared().kernelsUnloaded();
    return status;
  });
}
/// A context is destroyed or reset: all code loaded in it is gone.
template <class Real, class... P> CUresult byRule_ForgetAll(CUstream stream, Real real, P... p) {
  if (isForeign())
    Hooks::shared().loadedImages().clear();
  return byRule_Forget(stream, real, p...);
}
template <class Real, class Module>
CUresult byRule_Unload(CUstream stream, Real real, Module module) {
  return byRule_Drain(stream, [&] {
    if (isForeign())
      Hooks::shared().loadedImages().unloaded(module);
    return byRule_Forget(stream, real, module);
  });
}

// Code: modules and libraries, and the kernels and variables found in them.

/// A call that succeeded tells the hooks about loaded code: `note(images)`.
template <class Note> CUresult noted(CUresult status, const Note &note) {
  if (status == CUDA_SUCCESS && isForeign())
    note(Hooks::shared().loadedImages());
  return status;
}

template <class Real, class Module, class... P>
CUresult byRule_Load(CUstream, Real real, Module *module, const void *image, P... p) {
  if (isForeign())
    Hooks::shared().loadedImages().willLoad();
  return noted(real(module, image, p...), [&](LoadedImages &images) {
    images.loaded(foreignApi(), *module, bundle::deviceImageAt(image));
  });
}
template <class Real, class Module, class... P>
CUresult byRule_LoadFile(CUstream, Real real, Module *module, const char *path, P... p) {
  return noted(real(module, path, p...),
               [&](LoadedImages &images) { images.loadedFile(foreignApi(), *module, path); });
}
template <class Real>
CUresult byRule_LibraryModule(CUstream, Real real, CUmodule *module, CUlibrary library) {
  return noted(real(module, library),
               [&](LoadedImages &images) { images.aliasModule(library, *module); });
}
template <class Real>
CUresult byRule_FunctionModule(CUstream, Real real, CUmodule *module, CUfunction function) {
  return noted(real(module, function),
               [&](LoadedImages &images) { images.aliasModuleOf(function, *module); });
}
template <class Real, class Kernel, class Module>
CUresult byRule_Find(CUstream, Real real, Kernel *kernel, Module module, const char *name) {
  return noted(real(kernel, module, name),
               [&](LoadedImages &images) { images.found(foreignApi(), module, name, *kernel); });
}
template <class Real>
CUresult byRule_Alias(CUstream, Real real, CUfunction *function, CUkernel kernel) {
  return noted(real(function, kernel),
               [&](LoadedImages &images) { images.alias(foreignApi(), kernel, *function); });
}
template <class Real, class Module>
CUresult byRule_FindVariable(CUstream, Real real, CUdeviceptr *address, std::size_t *bytes,
                             Module module, const char *name) {
  return noted(real(address, bytes, module, name),
               [&](LoadedImages &images) { images.foundVariable(module); });
}

// Links at run time.

template <class Real, class... P>
CUresult byRule_LinkData(CUstream, Real real, CUlinkState link, CUjitInputType type, void *data,
                         std::size_t bytes, P... p) {
  return noted(real(link, type, data, bytes, p...), [&](LoadedImages &images) {
    images.linkAdded(link, type == CU_JIT_INPUT_PTX, {static_cast<const char *>(data), bytes});
  });
}
template <class Real, class... P>
CUresult byRule_LinkFile(CUstream, Real real, CUlinkState link, CUjitInputType type,
                         const char *path, P... p) {
  return noted(real(link, type, path, p...), [&](LoadedImages &images) {
    images.linkAddedFile(link, type == CU_JIT_INPUT_PTX, path);
  });
}
template <class Real>
CUresult byRule_LinkComplete(CUstream, Real real, CUlinkState link, void **code,
                             std::size_t *bytes) {
  return noted(real(link, code, bytes), [&](LoadedImages &images) {
    if (code && bytes)
      images.linked(link, {static_cast<const char *>(*code), *bytes});
  });
}
template <class Real> CUresult byRule_LinkDestroy(CUstream, Real real, CUlinkState link) {
  if (isForeign())
    Hooks::shared().loadedImages().linkEnded(link);
  return real(link);
}

// Attributes.

template <class Real, class Function>
CUresult setAttribute(Real real, Function function, CUfunction_attribute attribute, int value) {
  if (!isForeign())
    return real();
  auto meant = static_cast<cudaFuncAttribute>(attribute); // the two number attributes alike
  return Hooks::shared().libraries().kernels().changing([&] {
    if (!Hooks::shared().loadedImages().knows(function))
      return real();
    return driverStatus(Hooks::shared().launches().setAttribute(
        foreignApi(), function, meant, value, [&] { return runtimeStatus(real()); }));
  });
}
template <class Real>
CUresult byRule_SetFunction(CUstream, Real real, CUfunction function,
                            CUfunction_attribute attribute, int value) {
  return setAttribute([&] { return real(function, attribute, value); }, function, attribute, value);
}
template <class Real>
CUresult byRule_SetKernel(CUstream, Real real, CUfunction_attribute attribute, int value,
                          CUkernel kernel, CUdevice device) {
  return setAttribute([&] { return real(attribute, value, kernel, device); }, kernel, attribute,
                      value);
}
/// The driver reads its environment now; the hooks prepare it first.
template <class Real> CUresult byRule_Init(CUstream, Real real, unsigned flags) {
  if (isOff())
    return real(flags);
  if (Settings::get().areWrong)
    return CUDA_ERROR_NOT_PERMITTED;
  Hooks::shared();
  return real(flags);
}
template <class Real, class... P> CUresult byRule_Context(CUstream, Real real, P... p) {
  CUresult status = real(p...);
  if (isForeign())
    Hooks::shared().streams().contextChanged();
  return status;
}

// Streams.

template <class Real, class... P> CUresult byRule_Wait(CUstream stream, Real real, P... p) {
  auto call = [&] { return real(p...); };
  return asForeign(call, [&] {
    return Hooks::shared().streams().synchronize(foreignApi(), stream,
                                                 [&] { return runtimeStatus(call()); });
  });
}
template <class Real, class... P> CUresult byRule_Query(CUstream stream, Real real, P... p) {
  auto call = [&] { return real(p...); };
  return asForeign(call, [&] {
    return Hooks::shared().streams().query(foreignApi(), stream,
                                           [&] { return runtimeStatus(call()); });
  });
}
template <class Real, class... P> CUresult byRule_Begin(CUstream stream, Real real, P... p) {
  auto call = [&] { return real(p...); };
  return isForeign() ? Hooks::shared().streams().beginCapture(foreignApi(), stream, call) : call();
}
template <class Real, class... P> CUresult byRule_End(CUstream, Real real, P... p) {
  auto call = [&] { return real(p...); };
  return isForeign() ? Hooks::shared().streams().endCapture(call) : call();
}
template <class Real, class... P> CUresult byRule_Destroy(CUstream stream, Real real, P... p) {
  if (isForeign())
    Hooks::shared().streams().destroyedByLibrary(foreignApi(), stream);
  return real(p...);
}

// Events.

template <class Real>
CUresult byRule_WaitEvent(CUstream stream, Real real, CUstream given, CUevent event,
                          unsigned flags) {
  return asForeign([&] { return real(given, event, flags); },
                   [&] {
                     return Hooks::shared().events().wait(
                         foreignApi(), stream, event, flags,
                         [=](cudaStream_t on) { return runtimeStatus(real(on, event, flags)); });
                   });
}
template <class Real, class... Flags>
CUresult byRule_Record(CUstream stream, Real real, CUevent event, CUstream given, Flags... flags) {
  return asForeign([&] { return real(event, given, flags...); },
                   [&] {
                     return Hooks::shared().events().record(
                         foreignApi(), event, stream, (0u | ... | flags),
                         [=](cudaStream_t on) { return runtimeStatus(real(event, on, flags...)); });
                   });
}
template <class Real> CUresult byRule_QueryEvent(CUstream, Real real, CUevent event) {
  auto call = [&] { return real(event); };
  return asForeign(call, [&] {
    return Hooks::shared().events().query(event, [&] { return runtimeStatus(call()); });
  });
}
template <class Real> CUresult byRule_SynchronizeEvent(CUstream, Real real, CUevent event) {
  auto call = [&] { return real(event); };
  return asForeign(call, [&] {
    return Hooks::shared().events().synchronize(event, [&] { return runtimeStatus(call()); });
  });
}
template <class Real> CUresult byRule_DestroyEvent(CUstream, Real real, CUevent event) {
  auto call = [&] { return real(event); };
  return asForeign(call, [&] {
    return Hooks::shared().events().destroy(foreignApi(), event,
                                            [&] { return runtimeStatus(call()); });
  });
}
template <class Real>
CUresult byRule_Elapsed(CUstream, Real real, float *ms, CUevent start, CUevent end) {
  auto call = [&] { return real(ms, start, end); };
  return asForeign(call, [&] {
    return Hooks::shared().events().elapsedTime(start, end, [&] { return runtimeStatus(call()); });
  });
}

} // namespace tally::hooks

#include "intercept/driver_graph_rules.h"

#endif
