#include "engine/storm.h"

#include "state/own_thread.h"

#include <chrono>
#include <random>

namespace tally::hooks {

Storm::Storm(const CudaApi &api, Activity &activity, RunAhead *ahead,
             std::uint32_t everyMicroseconds)
    : api(api), activity(activity), ahead(ahead),
      thread([this, everyMicroseconds] { run(everyMicroseconds); }) {}

void Storm::stop() {
  isOver = true;
  if (thread.joinable())
    thread.join();
}

void Storm::run(std::uint32_t everyMicroseconds) {
  beOnOwnThread(api, activity.onDevice().number());
  runtime::DeviceControl &control = activity.controlWord();
  std::minstd_rand random(everyMicroseconds);
  while (!isOver) {
    std::this_thread::sleep_for(std::chrono::microseconds(everyMicroseconds));
    if (ahead && random() % 16 == 0)
      ahead->holdUp(!ahead->isHeldUp());
    if (ahead && !ahead->isHeldUp())
      continue;
    if (!control.raise())
      return;
    Result<bool> last = control.withdraw();
    if (!last)
      return;
    if (*last)
      activity.scopes().wakeTrace().idle();
  }
}

} // namespace tally::hooks
