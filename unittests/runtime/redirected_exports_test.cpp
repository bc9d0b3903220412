#include "device/redirected_exports.h"

#include <doctest/doctest.h>

#include <dlfcn.h>

#include <memory>

using namespace tally;
using Function = int (*)();

namespace {

int instead() { return 10; }

struct Libraries {
  Libraries()
      : library(dlopen(TALLY_EXPORTS_LIBRARY, RTLD_NOW | RTLD_LOCAL)),
        user(dlopen(TALLY_EXPORTS_USER, RTLD_LAZY | RTLD_LOCAL)) {
    REQUIRE(library);
    REQUIRE(user);
  }
  int call(const char *name) const {
    void *function = dlsym(user, name);
    REQUIRE(function);
    return reinterpret_cast<Function>(function)();
  }
  int callConstant(int index) const {
    return reinterpret_cast<int (*)(int)>(dlsym(user, "callConstant"))(index);
  }
  void *find(const char *name) const { return dlsym(library, name); }

  void *library, *user;
};

} // namespace

TEST_CASE(
    "a library's function is led elsewhere for who looks it up, is bound to it, or has copied it") {
  Libraries loaded;
  void *one = loaded.find("exportedOne"), *two = loaded.find("exportedTwo");
  CHECK(loaded.call("callOne") == 1); // bound by this call; callTwo is not bound yet
  CHECK(loaded.call("callVariable") == 1);

  auto isOne = [](std::string_view name) { return name == "exportedOne"; };
  CHECK(!runtime::hasAllocatedCopies(loaded.library, isOne));
  auto allocated = std::make_unique<void *volatile>(one);
  CHECK(runtime::hasAllocatedCopies(loaded.library, isOne));
  CHECK(!runtime::hasAllocatedCopies(loaded.library,
                                     [](std::string_view name) { return name == "exportedTwo"; }));

  int asked = 0, ready = 0;
  auto replace = [&](std::string_view name, void *function) {
    ++asked;
    return name == "exportedOne" ? reinterpret_cast<void *>(&instead) : function;
  };
  auto isReady = [&] {
    ++ready;
    CHECK(loaded.call("callOne") == 1); // nothing is changed yet
  };
  auto redirected = runtime::redirectExports(loaded.library, replace, isReady);
  REQUIRE(redirected);
  CHECK(asked >= 2);
  CHECK(ready == 1);
  REQUIRE(redirected->size() == 1);
  CHECK((*redirected)[0].from == one);

  CHECK(loaded.find("exportedOne") == reinterpret_cast<void *>(&instead));
  CHECK(loaded.find("exportedTwo") == two);
  CHECK(loaded.call("callOne") == 10);
  CHECK(loaded.call("callTwo") == 2);
  CHECK(loaded.callConstant(0) == 10);
  CHECK(loaded.callConstant(1) == 2);
  CHECK(loaded.call("callVariable") == 1);
  runtime::redirectCopies(loaded.library, *redirected);
  CHECK(loaded.call("callVariable") == 10);
  // A variable stays one.
  auto place = reinterpret_cast<Function *(*)()>(dlsym(loaded.user, "variablesPlace"))();
  *place = reinterpret_cast<Function>(two);
  CHECK(loaded.call("callVariable") == 2);
  CHECK(*allocated == one);
}

TEST_CASE("objects are counted by their names") {
  Libraries loaded;
  CHECK(runtime::objectsNamed("libc.so.6") == 1);
  CHECK(runtime::objectsNamed("libnone.so.1") == 0);
}
