#include "saboteur.h"

#include <cassert>
#include <cstring>

namespace tally::verify {

// tally-verify writes and reads only a launch state in this size: the buffers of the workloads here
// have other sizes.
Result<void> Saboteur::write(DeviceAddress to, std::span<const std::byte> from) {
  if (!sabotage.before || from.size() != sizeof(tally_launch_state))
    return target->write(to, from);
  tally_launch_state state, was;
  std::memcpy(&state, from.data(), sizeof state);
  was = state;
  sabotage.before(state);
  changes += std::memcmp(&was, &state, sizeof state) != 0;
  return target->write(to, std::as_bytes(std::span(&state, 1)));
}

Result<void> Saboteur::read(std::span<std::byte> to, DeviceAddress from) {
  auto done = target->read(to, from);
  if (!done || !sabotage.after || to.size() != sizeof(tally_launch_state))
    return done;
  tally_launch_state state, was;
  std::memcpy(&state, to.data(), sizeof state);
  was = state;
  sabotage.after(state);
  changes += std::memcmp(&was, &state, sizeof state) != 0;
  std::memcpy(to.data(), &state, sizeof state);
  return done;
}

Result<void> Saboteur::launch(std::string_view entry, const LaunchShape &shape,
                              std::span<const std::byte> parameters) {
  if (entry.find("$tally_") == std::string_view::npos)
    return target->launch(entry, shape, parameters);
  launching = true;
  auto done = launchVariant(entry, shape, parameters);
  launching = false;
  if (done && lateWord)
    done = target->writeControl(*lateWord);
  lateWord.reset();
  return done;
}

Result<void> Saboteur::launchVariant(std::string_view entry, const LaunchShape &shape,
                                     std::span<const std::byte> parameters) {
  if (!sabotage.launch)
    return target->launch(entry, shape, parameters);
  LaunchShape changedShape = shape;
  std::vector<std::byte> bytes(parameters.begin(), parameters.end());
  assert(parameterOffset + sizeof(tally_launch_params) <= bytes.size());
  tally_launch_params params, was;
  std::memcpy(&params, bytes.data() + parameterOffset, sizeof params);
  was = params;
  bool launches = sabotage.launch(entry, changedShape, params);
  changes += !launches || std::memcmp(&was, &params, sizeof params) != 0 ||
             !(changedShape.grid == shape.grid);
  std::memcpy(bytes.data() + parameterOffset, &params, sizeof params);
  return launches ? target->launch(entry, changedShape, bytes) : Result<void>{};
}

Result<void> Saboteur::writeControl(std::uint64_t word) {
  if (!sabotage.stalePolls || !launching)
    return target->writeControl(word);
  lateWord = word;
  ++changes;
  return {};
}

} // namespace tally::verify
