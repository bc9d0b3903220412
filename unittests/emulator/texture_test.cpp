#include "harness.h"

#include <bit>

namespace tally::emulator {

namespace {

using U32 = std::uint32_t;

/// Stores in out[lane] the result of `instruction` in %f1. The texture is in %t, and the lane's
/// coordinates are in %x, %y, %z.
const std::string fetching = R"(
.visible .entry k(.param .u64 object, .param .u64 at, .param .u64 out) {
  .reg .b64 %t, %a, %o, %l; .reg .b32 %n; .reg .f32 %x, %y, %z, %f<5>; .reg .b32 %r<5>, %i<4>;
  ld.param.u64 %t, [object]; ld.param.u64 %a, [at]; ld.param.u64 %o, [out];
  mov.u32 %n, %tid.x;
  mul.wide.u32 %l, %n, 12; add.u64 %a, %a, %l;
  mul.wide.u32 %l, %n, 4; add.u64 %o, %o, %l;
  ld.global.f32 %x, [%a]; ld.global.f32 %y, [%a+4]; ld.global.f32 %z, [%a+8];
  ld.global.u32 %i1, [%a]; ld.global.u32 %i2, [%a+4]; ld.global.u32 %i3, [%a+8];
)";

struct Coordinates {
  float x = 0, y = 0, z = 0;
};
struct Indices {
  int x = 0, y = 0, z = 0;
};

class Fetches {
public:
  explicit Fetches(const std::string &instruction)
      : harness(header + fetching + instruction + " st.global.f32 [%o], %f1; ret; }") {}

  template <class T> Texture textureOf(const std::vector<T> &elements) {
    Texture texture;
    texture.memory = harness.upload(elements);
    texture.width = static_cast<U32>(elements.size());
    texture.channelBytes = sizeof(T);
    return texture;
  }
  template <class At> std::vector<float> at(const Texture &texture, const std::vector<At> &points) {
    auto count = static_cast<U32>(points.size());
    DevicePtr where = harness.upload(points);
    DevicePtr out = harness.upload(std::vector<float>(count, -1.0f));
    std::uint64_t handle = harness.machine.createTexture(texture);
    harness.ok("k", {{1, 1, 1}, {count, 1, 1}}, handle, where, out);
    REQUIRE(bool(harness.machine.destroyTexture(handle)));
    return harness.download<float>(out, count);
  }
  Harness harness;
};

const std::string fetch1D = "tex.1d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%t, {%x}];";
const std::string fetch2D = "tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%t, {%x, %y}];";

} // namespace

TEST_CASE("integer fetches of linear memory; outside of it is 0") {
  Fetches fetches("tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%t, {%i1}];");
  Texture texture = fetches.textureOf(std::vector<float>{1, 2, 3});
  texture.isLinearMemory = true;
  CHECK(fetches.at(texture, std::vector<Indices>{{0}, {2}, {3}, {-1}}) ==
        std::vector<float>{1, 3, 0, 0});
}

TEST_CASE("the nearest element, by address mode") {
  Fetches fetches(fetch1D);
  Texture texture = fetches.textureOf(std::vector<float>{10, 20, 30, 40});
  const std::vector<Coordinates> points{{0.0f}, {0.99f}, {3.5f}, {-0.5f}, {4.5f}, {-9.0f}};
  texture.border = {7, 0, 0, 0};
  CHECK(fetches.at(texture, points) == std::vector<float>{10, 10, 40, 10, 40, 10});
  texture.addressModes[0] = AddressMode::Border;
  CHECK(fetches.at(texture, points) == std::vector<float>{10, 10, 40, 7, 7, 7});
  // Wrapping needs normalised coordinates; without them the mode acts as clamping.
  texture.addressModes[0] = AddressMode::Wrap;
  CHECK(fetches.at(texture, points) == std::vector<float>{10, 10, 40, 10, 40, 10});
  texture.hasNormalizedCoordinates = true;
  CHECK(fetches.at(texture, std::vector<Coordinates>{{0.3f}, {1.3f}, {-0.1f}, {-1.9f}}) ==
        std::vector<float>{20, 20, 40, 10});
  texture.addressModes[0] = AddressMode::Mirror;
  CHECK(fetches.at(texture, std::vector<Coordinates>{{0.3f}, {1.1f}, {-0.1f}, {-1.1f}, {2.3f}}) ==
        std::vector<float>{20, 40, 10, 40, 20});
}

TEST_CASE("linear filtering weighs with 8 bits") {
  Fetches fetches(fetch1D);
  Texture texture = fetches.textureOf(std::vector<float>{0, 256, 512});
  texture.filtersLinearly = true;
  CHECK(fetches.at(texture,
                   std::vector<Coordinates>{
                       {0.5f}, {1.0f}, {0.5f + 3.0f / 256}, {0.0f}, {0.5f + 0.4f / 256}, {9.0f}}) ==
        std::vector<float>{0, 128, 3, 0, 0, 512});
  Fetches inPlane(fetch2D);
  Texture plane = inPlane.textureOf(std::vector<float>{0, 4, -1, 8, 12, -1});
  plane.width = plane.height = 2;
  plane.pitch = 12;
  plane.filtersLinearly = true;
  CHECK(inPlane.at(plane, std::vector<Coordinates>{{1.0f, 1.0f}, {1.5f, 1.0f}, {0.75f, 0.5f}}) ==
        std::vector<float>{6, 8, 1});
}

TEST_CASE("element types: bytes, halves, normalised integers, several channels") {
  Fetches second("tex.1d.v4.f32.f32 {%f2, %f1, %f3, %f4}, [%t, {%x}];");
  Texture pairs = second.textureOf(std::vector<std::uint8_t>{0, 255, 51, 102});
  pairs.width = 2;
  pairs.channels = 2;
  pairs.kind = TexelKind::Unsigned;
  pairs.readsNormalized = true;
  CHECK(second.at(pairs, std::vector<Coordinates>{{0.5f}, {1.5f}}) ==
        std::vector<float>{1.0f, 102.0f / 255});
  Fetches fetches(fetch1D);
  Texture halves = fetches.textureOf(std::vector<std::uint16_t>{0x3c00, 0xc000});
  CHECK(fetches.at(halves, std::vector<Coordinates>{{0.5f}, {1.5f}}) == std::vector<float>{1, -2});
  Texture shorts = fetches.textureOf(std::vector<std::int16_t>{-32768, 32767, 16384});
  shorts.kind = TexelKind::Signed;
  shorts.readsNormalized = true;
  CHECK(fetches.at(shorts, std::vector<Coordinates>{{0.5f}, {1.5f}, {2.5f}}) ==
        std::vector<float>{-1, 1, 16384.0f / 32767});
  Fetches integers("tex.1d.v4.s32.s32 {%r1, %r2, %r3, %r4}, [%t, {%i1}]; cvt.rn.f32.s32 %f1, %r1;");
  Texture bytes = integers.textureOf(std::vector<std::int8_t>{-3, 100});
  bytes.kind = TexelKind::Signed;
  CHECK(integers.at(bytes, std::vector<Indices>{{0}, {1}}) == std::vector<float>{-3, 100});
}

TEST_CASE("volumes and layers") {
  const std::vector<float> elements{0, 1, 2, 3, 4, 5, 6, 7};
  Fetches volume("tex.3d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%t, {%x, %y, %z, %z}];");
  Texture texture = volume.textureOf(elements);
  texture.width = texture.height = texture.depth = 2;
  texture.pitch = 8;
  texture.slice = 16;
  texture.filtersLinearly = true;
  CHECK(volume.at(texture, std::vector<Coordinates>{{1.0f, 1.0f, 1.0f}, {1.5f, 0.5f, 1.5f}}) ==
        std::vector<float>{3.5f, 5});
  Fetches layers("tex.a2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%t, {%i3, %x, %y, %y}];");
  Texture layered = layers.textureOf(elements);
  layered.width = layered.height = layered.depth = 2;
  layered.pitch = 8;
  layered.slice = 16;
  layered.isLayered = true;
  auto layerOne = std::bit_cast<float>(1), layerNine = std::bit_cast<float>(9);
  CHECK(layers.at(layered, std::vector<Coordinates>{{1.5f, 0.5f, layerOne},
                                                    {0.5f, 1.5f, layerNine},
                                                    {0.5f, 0.5f, 0.0f}}) ==
        std::vector<float>{5, 6, 0});
}

TEST_CASE("surfaces are read and written by bytes of x; outside is what the mode says") {
  Fetches writing("sust.b.2d.b32.trap [%t, {%i1, %i2}], {%i3}; mov.b32 %f1, %i3;");
  Texture surface = writing.textureOf(std::vector<U32>(6));
  surface.width = 3;
  surface.height = 2;
  surface.pitch = 12;
  surface.kind = TexelKind::Unsigned;
  writing.at(surface, std::vector<Indices>{{4, 1, 77}, {0, 0, 5}});
  CHECK(writing.harness.download<U32>(surface.memory, 6) == std::vector<U32>{5, 0, 0, 0, 77, 0});
  std::uint64_t handle = writing.harness.machine.createTexture(surface);
  DevicePtr points = writing.harness.upload(std::vector<Indices>{{12, 0, 1}});
  auto fault = writing.harness.run("k", {{1, 1, 1}, {1, 1, 1}}, {}, handle, points, points);
  REQUIRE(fault);
  CHECK(fault->kind == FaultKind::OutOfBounds);
  CHECK(fault->message.find("out-of-bounds surface access of 4 bytes at (12, 0, 0)") !=
        std::string::npos);

  Fetches reading("suld.b.2d.b32.zero {%i3}, [%t, {%i1, %i2}]; cvt.rn.f32.u32 %f1, %i3;");
  Texture source = reading.textureOf(std::vector<U32>{1, 2, 3, 4});
  source.width = source.height = 2;
  source.pitch = 8;
  CHECK(reading.at(source, std::vector<Indices>{{4, 1}, {8, 0}, {-4, 0}}) ==
        std::vector<float>{4, 0, 0});
}

TEST_CASE("a handle of nothing and freed memory are faults") {
  Fetches fetches(fetch1D);
  Texture texture = fetches.textureOf(std::vector<float>{1});
  std::uint64_t handle = fetches.harness.machine.createTexture(texture);
  DevicePtr points = fetches.harness.upload(std::vector<Coordinates>{{0.5f}});
  auto fault = fetches.harness.run("k", {{1, 1, 1}, {1, 1, 1}}, {}, handle + 1, points, points);
  REQUIRE(fault);
  CHECK(fault->message.find("no texture or surface object") != std::string::npos);
  REQUIRE(bool(fetches.harness.machine.free(texture.memory)));
  fault = fetches.harness.run("k", {{1, 1, 1}, {1, 1, 1}}, {}, handle, points, points);
  REQUIRE(fault);
  CHECK(fault->message.find("is freed") != std::string::npos);
}

} // namespace tally::emulator
