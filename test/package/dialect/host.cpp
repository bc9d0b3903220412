// Headers of Tally that an enabled program may include, in its own dialect.
#include "tally/hooks.h"
#include "tally/tally.h"

static_assert(__cplusplus == 201703L, "compiled in another dialect than the project's");

int answer() { return 42; }
