// Names of states.
#ifndef TALLY_TOP_WORDS_H
#define TALLY_TOP_WORDS_H

#include "tally/runtime/arena_status.h"

namespace tally::top {

inline const char *stateWord(const runtime::ClientStatus &client) {
  switch (client.state) {
  case runtime::ClientStatus::State::Idle:
    return "idle";
  case runtime::ClientStatus::State::Active:
    return "active";
  case runtime::ClientStatus::State::Waiting:
    return "waiting";
  }
  return "";
}

} // namespace tally::top

#endif
