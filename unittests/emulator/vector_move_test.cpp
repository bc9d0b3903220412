// mov.v2 and mov.v4 between brace lists, vector registers and special registers. PTX ISA 9.7.9.6.
#include "harness.h"

using namespace tally;
using namespace tally::emulator;

TEST_CASE("vectors move element by element, all read before any is written") {
  Harness h(header + R"(
.visible .entry k(.param .u64 out)
{
  .reg .b64 %d<2>;
  .reg .b32 %r<6>;
  .reg .b16 %h<6>;
  .reg .v4 .b32 %v;
  ld.param.u64 %d1, [out];
  mov.v4.u32 {%r1, %r2, _, %r4}, %ntid;
  mov.v4.u16 {%h1, %h2, %h3, %h4}, %ntid;
  mov.v4.u32 %v, {%r2, %r1, %r4, 9};
  mov.v2.u32 {%r1, %r2}, {%r2, %r1};
  mov.b32 %r3, {%h1, %h3};
  mov.u32 %r5, %ntid.g;
  st.global.v4.u32 [%d1], {%v.x, %v.y, %v.z, %v.w};
  st.global.v4.u32 [%d1+16], {%r1, %r2, %r3, %r5};
  ret;
}
)");
  using Words = std::vector<std::uint32_t>;
  DevicePtr out = h.upload(Words(8));
  h.ok("k", LaunchShape{{1, 1, 1}, {2, 3, 4}, 0}, out);
  CHECK(h.download<std::uint32_t>(out, 8) == Words{3, 2, 0, 9, 3, 2, 2 | 4 << 16, 3});
}
