// A target whose host breaks the ABI: it changes the launches, parameters and states of
// tally-verify on their way to the emulator.
#ifndef TALLY_UNITTESTS_VERIFY_SABOTEUR_H
#define TALLY_UNITTESTS_VERIFY_SABOTEUR_H

#include "target.h"

#include "tally/bundle/abi.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tally::verify {

/// The errors of a host. Each member that is set applies to the launches of variants.
struct Sabotage {
  /// Changes tally's parameters and the shape of a launch of `entry`; false: the launch is left
  /// out.
  std::function<bool(std::string_view entry, LaunchShape &shape, tally_launch_params &params)>
      launch;
  /// Changes the state that is written before a launch, and the state that is read after it.
  std::function<void(tally_launch_state &state)> before, after;
  /// Writes of the control word land only after the end of the launch, as when a poll by a plain
  /// load hits a stale line.
  bool stalePolls = false;
};

/// `parameterOffset`: offset of tally's parameters in the variants. Counts the changes.
class Saboteur final : public Target {
public:
  Saboteur(std::unique_ptr<Target> target, Sabotage sabotage, std::uint32_t parameterOffset)
      : target(std::move(target)), sabotage(std::move(sabotage)), parameterOffset(parameterOffset) {
  }

  bool isMicroscope() const override { return target->isMicroscope(); }
  Result<void> reset() override { return target->reset(); }
  Result<DeviceAddress> allocate(std::size_t bytes) override { return target->allocate(bytes); }
  Result<void> write(DeviceAddress to, std::span<const std::byte> from) override;
  Result<void> read(std::span<std::byte> to, DeviceAddress from) override;
  Result<void> launch(std::string_view entry, const LaunchShape &shape,
                      std::span<const std::byte> parameters) override;
  Result<DeviceAddress> allocateControl(std::uint64_t word) override {
    return target->allocateControl(word);
  }
  Result<void> writeControl(std::uint64_t word) override;
  void setPollHook(PollHook hook) override { target->setPollHook(std::move(hook)); }
  void setSchedule(const emulator::Schedule &schedule) override { target->setSchedule(schedule); }

  std::uint64_t changes = 0;

private:
  Result<void> launchVariant(std::string_view entry, const LaunchShape &shape,
                             std::span<const std::byte> parameters);

  std::unique_ptr<Target> target;
  Sabotage sabotage;
  std::uint32_t parameterOffset;
  bool launching = false;
  std::optional<std::uint64_t> lateWord;
};

} // namespace tally::verify

#endif
