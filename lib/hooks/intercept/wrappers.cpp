// The wrappers of all calls whose rule in cuda_api.def is not Hook.
#include "intercept/wrappers.h"
#include "work/queue_checks.h"

#include <string_view>
#include <type_traits>

using namespace tally::hooks;

namespace {

/// Driver calls that the runtime makes during `call` are not a library's. The runtime's first call
/// holds locks on which the driver-level hook would block.
template <class Call> auto pass(Call call) {
  InHook inside;
  return call();
}

} // namespace

namespace {

constexpr bool isCopyOrFill(std::string_view name) {
  return name.starts_with("cudaMemcpy") || name.starts_with("cudaMemset");
}

/// Whether the driver may make a call with these arguments with a kernel. Copies that do not name
/// their direction may be made so.
template <class... Arguments> constexpr bool mayBeOfDriver(const Arguments &...arguments) {
  bool may = true;
  auto look = [&](const auto &argument) {
    if constexpr (std::is_same_v<std::decay_t<decltype(argument)>, cudaMemcpyKind>)
      may = isOfDriver(argument);
  };
  (look(arguments), ...);
  return may;
}

} // namespace

// Reports a copy or fill before it is made.
#define TALLY_TELL(stream, name, arguments)                                                        \
  if constexpr (isCopyOrFill(#name))                                                               \
    if (mayBeOfDriver arguments)                                                                   \
      Hooks::shared().copies().runsDriverKernel(table, stream);

#define TALLY_TELL_Pass(stream, name, arguments)
#define TALLY_TELL_Drain TALLY_TELL_Pass
#define TALLY_TELL_Legacy(stream, name, arguments) TALLY_TELL(nullptr, name, arguments)
#define TALLY_TELL_Stream TALLY_TELL
#define TALLY_TELL_Queue TALLY_TELL

#define TALLY_RULE_Pass(call, stream, name, arguments) pass(call)
#define TALLY_RULE_Legacy(call, stream, name, arguments)                                           \
  Hooks::shared().rules().legacy(api(), nullptr, call)
#define TALLY_RULE_Drain(call, stream, name, arguments) Hooks::shared().rules().drained(call)
#define TALLY_RULE_Stream(call, stream, name, arguments)                                           \
  Hooks::shared().rules().stream(api(), stream, call)
#define TALLY_RULE_Queue(call, stream, name, arguments)                                            \
  Hooks::shared().rules().queue(                                                                   \
      table, stream, [&] { return QueueChecks{table}.name arguments; }, call)

// The arguments are captured by value: a queued call is made after the caller has returned.
#define TALLY_WRAP(result, name, parameters, arguments, rule)                                      \
  extern "C" result __wrap_##name parameters {                                                     \
    if (isOff())                                                                                   \
      return __real_##name arguments;                                                              \
    const CudaApi &table = api();                                                                  \
    auto call = [=, &table]() -> result { return table.name arguments; };                          \
    TALLY_TELL_##rule(stream, name, arguments) return TALLY_RULE_##rule(call, stream, name,        \
                                                                        arguments);                \
  }

#define TALLY_WRAP_Plain(result, name, parameters, arguments)
#define TALLY_WRAP_Ptsz(result, name, parameters, arguments)                                       \
  extern "C" result __wrap_##name##_ptsz parameters {                                              \
    if (isOff())                                                                                   \
      return __real_##name##_ptsz arguments;                                                       \
    stream = ownStream(stream);                                                                    \
    return __wrap_##name arguments;                                                                \
  }
#define TALLY_WRAP_Ptds(result, name, parameters, arguments)                                       \
  extern "C" result __wrap_##name##_ptds parameters {                                              \
    if (isOff())                                                                                   \
      return __real_##name##_ptds arguments;                                                       \
    const CudaApi &table = api();                                                                  \
    auto call = [=, &table]() -> result { return table.name##_ptds arguments; };                   \
    TALLY_TELL(cudaStreamPerThread, name, arguments)                                               \
    return Hooks::shared().rules().legacy(table, cudaStreamPerThread, call);                       \
  }

#define TALLY_ROW_Pass(result, name, parameters, arguments, rule, forms)                           \
  TALLY_WRAP(result, name, parameters, arguments, rule)                                            \
  TALLY_WRAP_##forms(result, name, parameters, arguments)
#define TALLY_ROW_Legacy TALLY_ROW_Pass
#define TALLY_ROW_Drain TALLY_ROW_Pass
#define TALLY_ROW_Stream TALLY_ROW_Pass
#define TALLY_ROW_Queue TALLY_ROW_Pass
#define TALLY_ROW_Hook(result, name, parameters, arguments, rule, forms)

#define TALLY_CUDA_CALL(result, name, parameters, arguments, rule, forms)                          \
  TALLY_ROW_##rule(result, name, parameters, arguments, rule, forms)
#include "tables/cuda_api.def"
