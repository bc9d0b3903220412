#include "loaded_images.h"

#include <doctest/doctest.h>

using tally::hooks::hasVariables;

TEST_CASE("variables of a module are told from what functions and parameters declare") {
  CHECK_FALSE(
      hasVariables(".version 8.0\n.target sm_90\n.visible .entry k(.param .u64 .ptr .global "
                   ".align 1 p)\n{\n\t.shared .b8 s[4];\n\tld.global.u32 %r1, [%rd1];\n}\n"));
  CHECK_FALSE(hasVariables(".extern .shared .align 16 .b8 dynamic[];\n"));
  CHECK_FALSE(hasVariables("// .global .u32 x;\n/* .const .u32 y; */\n"));
  CHECK_FALSE(hasVariables(".file 1 \"a .global b\"\n"));
  CHECK(hasVariables(".global .u32 counter;\n"));
  CHECK(hasVariables(".visible .global .align 4 .u32 counter = 1;\n"));
  CHECK(hasVariables(".visible .const .align 4 .b8 table[16];\n"));
  CHECK(hasVariables(".visible .entry k() { ret; }\n.global .texref t;\n"));
  CHECK(hasVariables(".visible .entry k() { ret; }\n.samplerref s;\n"));
}

TEST_CASE("text that ends too soon is read to its end") {
  CHECK_FALSE(hasVariables(""));
  CHECK_FALSE(hasVariables("/"));
  CHECK_FALSE(hasVariables("/*"));
  CHECK_FALSE(hasVariables("\""));
  CHECK_FALSE(hasVariables("//"));
  CHECK(hasVariables(".global"));
}
