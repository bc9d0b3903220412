// Fragments: the lane and register of each element, checked against the formulas of PTX ISA 9.7.14
// for each shape, on matrices of small integers, whose products are exact in every format.
#include "harness.h"

#include <functional>

using namespace tally;
using namespace tally::emulator;
using U32 = std::uint32_t;
using U16 = std::uint16_t;

namespace {

struct Place {
  U32 row, column;
};
using Layout = std::function<Place(U32 lane, U32 i)>;

/// Encodes a small integer in a format, and decodes it.
struct Format {
  U32 bits;
  U32 (*encode)(int value);
  int (*decode)(U32 bits);
};

U32 floatBits(int value) {
  auto real = static_cast<float>(value);
  U32 bits;
  std::memcpy(&bits, &real, 4);
  return bits;
}
int fromFloatBits(U32 bits) {
  float real;
  std::memcpy(&real, &bits, 4);
  return static_cast<int>(real);
}
/// Keeps a float's leading bits, with another exponent's bias: exact for small integers.
U32 narrowed(int value, int exponentBits, int fractionBits) {
  if (value == 0)
    return 0;
  U32 bits = floatBits(value < 0 ? -value : value);
  int exponent = static_cast<int>(bits >> 23) - 127 + (1 << (exponentBits - 1)) - 1;
  U32 fraction = (bits & 0x7fffff) >> (23 - fractionBits);
  U32 sign = value < 0 ? 1u << (exponentBits + fractionBits) : 0;
  return sign | static_cast<U32>(exponent) << fractionBits | fraction;
}
int fromHalfBits(U32 bits) {
  if ((bits & 0x7fff) == 0)
    return 0;
  U32 wide = (bits & 0x8000) << 16 | ((bits >> 10 & 31) + 112) << 23 | (bits & 0x3ff) << 13;
  return fromFloatBits(wide);
}
const Format f16{16, [](int v) { return narrowed(v, 5, 10); }, fromHalfBits};
const Format bf16{16, [](int v) { return narrowed(v, 8, 7); }, nullptr};
const Format tf32{32, [](int v) { return floatBits(v) | 0xfffu; }, nullptr}; // low bits are ignored
const Format e4m3{8, [](int v) { return narrowed(v, 4, 3); }, nullptr};
const Format e5m2{8, [](int v) { return narrowed(v, 5, 2); }, nullptr};
const Format f32{32, floatBits, fromFloatBits};
const Format s32{32, [](int v) { return static_cast<U32>(v); },
                 [](U32 bits) { return static_cast<int>(bits); }};
const Format s8{8, [](int v) { return static_cast<U32>(v) & 0xff; }, nullptr};
const Format s4{4, [](int v) { return static_cast<U32>(v) & 0xf; }, nullptr};

/// A matrix by rows.
struct Matrix {
  U32 rows, columns;
  std::vector<int> values;
  Matrix(U32 rows, U32 columns) : rows(rows), columns(columns), values(rows * columns) {}
  int &at(U32 row, U32 column) { return values[row * columns + column]; }
  int at(U32 row, U32 column) const { return values[row * columns + column]; }
};

Matrix numbered(U32 rows, U32 columns, U32 seed) {
  Matrix matrix(rows, columns);
  for (int &each : matrix.values) {
    seed = seed * 1664525u + 1013904223u;
    // -1 to 2: representable in four bits and in e5m2 too.
    each = static_cast<int>(seed >> 28) % 4 - 1;
  }
  return matrix;
}

/// One buffer of registers: register after register, with a word for each lane.
std::vector<U32> spread(const Matrix &matrix, const Format &format, U32 count, const Layout &layout,
                        U32 repeats = 1) {
  U32 per = 32 / format.bits;
  std::vector<U32> words(std::size_t{count} / per * 32);
  for (U32 lane = 0; lane < 32; ++lane)
    for (U32 i = 0; i < count; ++i) {
      Place place = layout(lane, i / repeats);
      words[std::size_t{i / per} * 32 + lane] |= format.encode(matrix.at(place.row, place.column))
                                                 << (i % per * format.bits);
    }
  return words;
}

std::string registers(const std::string &name, U32 count) {
  std::string text;
  for (U32 i = 0; i < count; ++i)
    text += (i ? ", %" : "{%") + name + std::to_string(i);
  return text + "}";
}

/// Runs `opcode` with fragments of these words; returns the result's words.
std::vector<U32> product(const std::string &opcode, const std::vector<U32> &a,
                         const std::vector<U32> &b, const std::vector<U32> &c, U32 results) {
  auto count = [](const std::vector<U32> &words) { return static_cast<U32>(words.size() / 32); };
  std::string text = header + ".visible .entry k(.param .u64 d, .param .u64 a, .param .u64 b, "
                              ".param .u64 c)\n{\n.reg .b64 %p; .reg .b32 %lane, %d<16>, %a<16>, "
                              "%b<16>, %c<16>;\nmov.u32 %lane, %laneid;\n";
  auto move = [&](const std::string &name, U32 number, bool loads) {
    text += "ld.param.u64 %p, [" + name + "]; mad.wide.u32 %p, %lane, 4, %p;\n";
    for (U32 i = 0; i < number; ++i) {
      std::string at = "[%p+" + std::to_string(i * 128) + "]",
                  value = "%" + name + std::to_string(i);
      text += loads ? "ld.global.b32 " + value + ", " + at + ";\n"
                    : "st.global.b32 " + at + ", " + value + ";\n";
    }
  };
  move("a", count(a), true);
  move("b", count(b), true);
  move("c", count(c), true);
  text += opcode + " " + registers("d", results) + ", " + registers("a", count(a)) + ", " +
          registers("b", count(b)) + ", " + registers("c", count(c)) + ";\n";
  move("d", results, false);
  Harness h(text + "ret;\n}\n");
  DevicePtr out = h.upload(std::vector<U32>(std::size_t{results} * 32));
  INFO(opcode);
  h.ok("k", shapeOf(1, 32), out, h.upload(a), h.upload(b), h.upload(c));
  return h.download<U32>(out, std::size_t{results} * 32);
}

struct Side {
  const Format *format;
  U32 count; ///< elements a lane
  Layout layout;
};

void check(const std::string &opcode, U32 m, U32 n, U32 k, const Side &a, const Side &b,
           const Side &c, const Side &d) {
  Matrix left = numbered(m, k, 1), right = numbered(k, n, 2), start = numbered(m, n, 3);
  auto words = product(opcode, spread(left, *a.format, a.count, a.layout),
                       spread(right, *b.format, b.count, b.layout),
                       spread(start, *c.format, c.count, c.layout), d.count * d.format->bits / 32);
  U32 per = 32 / d.format->bits, wrong = 0;
  for (U32 lane = 0; lane < 32; ++lane)
    for (U32 i = 0; i < d.count; ++i) {
      auto [row, column] = d.layout(lane, i);
      int expected = start.at(row, column);
      for (U32 step = 0; step < k; ++step)
        expected += left.at(row, step) * right.at(step, column);
      U32 word = words[std::size_t{i / per} * 32 + lane] >> (i % per * d.format->bits);
      wrong += d.format->decode(d.format->bits == 16 ? word & 0xffff : word) != expected;
    }
  CAPTURE(opcode);
  CHECK(wrong == 0);
}

// The formulas of the ISA. groupID is lane >> 2, threadID_in_group lane % 4.
Place accumulator16(U32 lane, U32 i) {
  return {i < 2 ? lane >> 2 : (lane >> 2) + 8, lane % 4 * 2 + (i & 1)};
}
Place accumulator8(U32 lane, U32 i) { return {lane >> 2, lane % 4 * 2 + (i & 1)}; }

} // namespace

TEST_CASE("mma on f16 and bf16: m16n8k8 and m16n8k16") {
  Layout a8 = [](U32 lane, U32 i) -> Place {
    return {i < 2 ? lane >> 2 : (lane >> 2) + 8, lane % 4 * 2 + (i & 1)};
  };
  Layout b8 = [](U32 lane, U32 i) -> Place { return {lane % 4 * 2 + i, lane >> 2}; };
  Layout a16 = [](U32 lane, U32 i) -> Place {
    bool upper = i < 2 || (i >= 4 && i < 6);
    U32 column = lane % 4 * 2 + (i & 1);
    return {upper ? lane >> 2 : (lane >> 2) + 8, i < 4 ? column : column + 8};
  };
  Layout b16 = [](U32 lane, U32 i) -> Place {
    U32 row = lane % 4 * 2 + (i & 1);
    return {i < 2 ? row : row + 8, lane >> 2};
  };
  Side wide{&f32, 4, accumulator16}, narrow{&f16, 4, accumulator16};
  for (auto [name, format] : {std::pair{"f16", &f16}, {"bf16", &bf16}}) {
    std::string types = std::string(".row.col.f32.") + name + "." + name + ".f32";
    check("mma.sync.aligned.m16n8k8" + types, 16, 8, 8, {format, 4, a8}, {format, 2, b8}, wide,
          wide);
    check("mma.sync.aligned.m16n8k16" + types, 16, 8, 16, {format, 8, a16}, {format, 4, b16}, wide,
          wide);
  }
  check("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16", 16, 8, 16, {&f16, 8, a16},
        {&f16, 4, b16}, narrow, narrow);
  check("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16", 16, 8, 8, {&f16, 4, a8}, {&f16, 2, b8},
        narrow, narrow);
}

TEST_CASE("mma on tf32: m16n8k4 and m16n8k8") {
  Layout a4 = [](U32 lane, U32 i) -> Place {
    return {i == 0 ? lane >> 2 : (lane >> 2) + 8, lane % 4};
  };
  Layout b4 = [](U32 lane, U32) -> Place { return {lane % 4, lane >> 2}; };
  Layout a8 = [](U32 lane, U32 i) -> Place {
    return {i == 0 || i == 2 ? lane >> 2 : (lane >> 2) + 8, i < 2 ? lane % 4 : lane % 4 + 4};
  };
  Layout b8 = [](U32 lane, U32 i) -> Place {
    return {i == 0 ? lane % 4 : lane % 4 + 4, lane >> 2};
  };
  Side wide{&f32, 4, accumulator16};
  check("mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32", 16, 8, 4, {&tf32, 2, a4},
        {&tf32, 1, b4}, wide, wide);
  check("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 16, 8, 8, {&tf32, 4, a8},
        {&tf32, 2, b8}, wide, wide);
}

TEST_CASE("mma on bytes and nibbles") {
  Layout a16 = [](U32 lane, U32 i) -> Place {
    return {i < 4 ? lane >> 2 : (lane >> 2) + 8, lane % 4 * 4 + (i & 3)};
  };
  Layout b16 = [](U32 lane, U32 i) -> Place { return {lane % 4 * 4 + i, lane >> 2}; };
  Layout a32 = [](U32 lane, U32 i) -> Place {
    bool upper = i < 4 || (i >= 8 && i < 12);
    U32 column = lane % 4 * 4 + (i & 3);
    return {upper ? lane >> 2 : (lane >> 2) + 8, i < 8 ? column : column + 16};
  };
  Layout b32 = [](U32 lane, U32 i) -> Place {
    U32 row = lane % 4 * 4 + (i & 3);
    return {i < 4 ? row : row + 16, lane >> 2};
  };
  Layout a64 = [](U32 lane, U32 i) -> Place {
    bool upper = i < 8 || (i >= 16 && i < 24);
    U32 column = lane % 4 * 8 + (i & 7);
    return {upper ? lane >> 2 : (lane >> 2) + 8, i < 16 ? column : column + 32};
  };
  Layout b64 = [](U32 lane, U32 i) -> Place {
    U32 row = lane % 4 * 8 + (i & 7);
    return {i < 8 ? row : row + 32, lane >> 2};
  };
  Layout aSmall = [](U32 lane, U32 i) -> Place { return {lane >> 2, lane % 4 * 4 + i}; };
  Side sums{&s32, 4, accumulator16}, small{&s32, 2, accumulator8}, wide{&f32, 4, accumulator16};
  check("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32", 16, 8, 16, {&s8, 8, a16}, {&s8, 4, b16},
        sums, sums);
  check("mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.s8.s32", 16, 8, 32, {&s8, 16, a32},
        {&s8, 8, b32}, sums, sums);
  check("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32", 8, 8, 16, {&s8, 4, aSmall}, {&s8, 4, b16},
        small, small);
  check("mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32", 16, 8, 64, {&s4, 32, a64},
        {&s4, 16, b64}, sums, sums);
  check("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32", 16, 8, 32, {&e4m3, 16, a32},
        {&e5m2, 8, b32}, wide, wide);
}

TEST_CASE("mma.m8n8k4 on f16 is four products of eight lanes each") {
  // The ISA's formulas; MMA computation n takes lanes 4n to 4n + 3 and 16 + 4n to 16 + 4n + 3.
  Layout aRow = [](U32 lane, U32 i) -> Place {
    return {lane % 16 / 4 * 8 + (lane < 16 ? lane % 4 : lane % 4 + 4), i};
  };
  Layout aColumn = [](U32 lane, U32 i) -> Place {
    return {lane % 16 / 4 * 8 + (lane < 16 ? i % 4 : i % 4 + 4), lane % 4};
  };
  Layout bColumn = [](U32 lane, U32 i) -> Place {
    return {lane % 16 / 4 * 4 + i, lane < 16 ? lane % 4 : lane % 4 + 4};
  };
  Layout bRow = [](U32 lane, U32 i) -> Place {
    return {lane % 16 / 4 * 4 + lane % 4, lane < 16 ? i : i + 4};
  };
  Layout sums = [](U32 lane, U32 i) -> Place {
    U32 x = (lane & 1) + (i & 2);
    return {lane % 16 / 4 * 8 + (lane < 16 ? x : x + 4), (i & 4) + (lane & 2) + (i & 1)};
  };
  Matrix left = numbered(32, 4, 5), right = numbered(16, 8, 6), start = numbered(32, 8, 7);
  for (bool aIsRow : {true, false})
    for (bool bIsRow : {true, false}) {
      std::string opcode = std::string("mma.sync.aligned.m8n8k4.") + (aIsRow ? "row." : "col.") +
                           (bIsRow ? "row." : "col.") + "f32.f16.f16.f32";
      auto words =
          product(opcode, spread(left, f16, 4, aIsRow ? aRow : aColumn),
                  spread(right, f16, 4, bIsRow ? bRow : bColumn), spread(start, f32, 8, sums), 8);
      U32 wrong = 0;
      for (U32 lane = 0; lane < 32; ++lane)
        for (U32 i = 0; i < 8; ++i) {
          auto [row, column] = sums(lane, i);
          int expected = start.at(row, column);
          for (U32 step = 0; step < 4; ++step)
            expected += left.at(row, step) * right.at(row / 8 * 4 + step, column);
          wrong += fromFloatBits(words[std::size_t{i} * 32 + lane]) != expected;
        }
      CAPTURE(opcode);
      CHECK(wrong == 0);
    }
}

TEST_CASE("integer products wrap, or clamp with .satfinite") {
  std::vector<U32> a(64, 0x7f7f7f7f), b(32, 0x7f7f7f7f), c(128, 0x7ffffff0);
  U32 sum = 16 * 127 * 127;
  auto wrapped = product("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32", a, b, c, 4);
  CHECK(wrapped[5] == 0x7ffffff0 + sum);
  auto clamped = product("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32.satfinite", a, b, c, 4);
  CHECK(clamped[5] == 0x7fffffff);
  std::vector<U32> bytes(64, 0xffffffff), zero(128, 0);
  auto isUnsigned = product("mma.sync.aligned.m16n8k16.row.col.s32.u8.s8.s32", bytes, b, zero, 4);
  CHECK(isUnsigned[0] == 16 * 255 * 127);
}

TEST_CASE("mma on f64: m8n8k4") {
  Harness h(header + R"(.visible .entry k(.param .u64 out) {
    .reg .b64 %p, %a, %b, %d<2>, %c; .reg .b32 %lane, %i;
    mov.u32 %lane, %laneid;
    cvt.rn.f64.u32 %a, %lane; add.f64 %b, %a, 0d3FF0000000000000; mov.f64 %c, 0d3FE0000000000000;
    mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%d0, %d1}, {%a}, {%b}, {%c, %c};
    ld.param.u64 %p, [out]; mad.wide.u32 %p, %lane, 16, %p;
    st.global.v2.b64 [%p], {%d0, %d1}; ret; })");
  DevicePtr out = h.upload(std::vector<double>(64));
  h.ok("k", shapeOf(1, 32), out);
  auto d = h.download<double>(out, 64);
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 2; ++i) {
      int row = lane / 4, column = lane % 4 * 2 + i;
      double expected = 0.5; // A[row][j] is lane 4 row + j, B[j][column] lane 4 column + j, plus 1
      for (int j = 0; j < 4; ++j)
        expected += (4.0 * row + j) * (4.0 * column + j + 1);
      CHECK(d[static_cast<std::size_t>(lane * 2 + i)] == expected);
    }
}

TEST_CASE("ldmatrix and stmatrix: rows by lanes' addresses, transposed or not; movmatrix") {
  auto kernel = [](const std::string &body) {
    return header +
           ".visible .entry k(.param .u64 out) {\n.reg .b64 %p; .reg .b32 %lane, %at, %x, "
           "%r<4>; .reg .b16 %h; .reg .pred %q; .shared .align 16 .b8 tile[1024];\n"
           "mov.u32 %lane, %laneid; mov.u32 %at, tile;\n" +
           body +
           "ld.param.u64 %p, [out]; mad.wide.u32 %p, %lane, 16, %p;\n"
           "st.global.v4.b32 [%p], {%r0, %r1, %r2, %r3}; ret; }\n";
  };
  // Lane t fills row t of 16 bytes: element j of matrix i's row r is 100 i + 10 r + j.
  std::string fill = "shr.u32 %x, %lane, 3; mul.lo.u32 %x, %x, 100; and.b32 %r0, %lane, 7;\n"
                     "mad.lo.u32 %x, %r0, 10, %x; mad.lo.u32 %r1, %lane, 16, %at;\n";
  for (int j = 0; j < 8; ++j)
    fill += "cvt.u16.u32 %h, %x; add.u16 %h, %h, " + std::to_string(j) + "; st.shared.b16 [%r1+" +
            std::to_string(2 * j) + "], %h;\n";
  fill += "bar.warp.sync 0xffffffff;\n";
  auto run = [&](const std::string &body) {
    Harness h(kernel(body));
    DevicePtr out = h.upload(std::vector<U32>(128));
    h.ok("k", shapeOf(1, 32), out);
    return h.download<U32>(out, 128);
  };
  auto plain =
      run(fill + "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r0, %r1, %r2, %r3}, [%r1];\n");
  auto turned = run(
      fill + "ldmatrix.sync.aligned.m8n8.x4.trans.shared::cta.b16 {%r0, %r1, %r2, %r3}, [%r1];");
  auto moved = run(fill + "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, [%r1];\n"
                          "movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r0; mov.b32 %r2, 0; "
                          "mov.b32 %r3, 0;\n");
  // ldmatrix.x2 takes the row addresses from lanes 0 to 15 alone.
  auto two = run(fill + "setp.gt.u32 %q, %lane, 15; selp.b32 %r1, 7, %r1, %q;\n"
                        "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r0, %r2}, [%r1];\n"
                        "mov.b32 %r1, 0; mov.b32 %r3, 0;\n");
  for (U32 lane = 0; lane < 32; ++lane) {
    U32 row = lane / 4, column = lane % 4 * 2;
    for (U32 i = 0; i < 4; ++i) {
      U32 first = 100 * i + 10 * row + column;
      CHECK(plain[lane * 4 + i] == (first | (first + 1) << 16));
      U32 down = 100 * i + 10 * column + row;
      CHECK(turned[lane * 4 + i] == (down | (down + 10) << 16));
    }
    CHECK(moved[lane * 4 + 1] == turned[lane * 4]);
    CHECK(two[lane * 4] == plain[lane * 4]);
    CHECK(two[lane * 4 + 2] == plain[lane * 4 + 1]);
  }
  for (std::string trans : {"", ".trans"}) {
    auto back = run(fill + "ldmatrix.sync.aligned.m8n8.x4" + trans +
                    ".shared.b16 {%r0, %r2, %r3, %x}, [%r1];\n"
                    "stmatrix.sync.aligned.m8n8.x4" +
                    trans +
                    ".shared.b16 [%r1], {%r2, %r0, %x, %r3};\nbar.warp.sync 0xffffffff;\n"
                    "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r0, %r1, %r2, %r3}, [%r1];\n");
    for (U32 lane = 0; lane < 32; ++lane)
      for (U32 i = 0; i < 4; ++i)
        CHECK(back[lane * 4 + i] == plain[lane * 4 + (i ^ 1)]);
  }
}

TEST_CASE("a matrix operation takes a whole warp, whose lanes may come one after the other") {
  std::string body = header + R"(.visible .entry k(.param .u64 out) {
    .reg .b64 %p; .reg .b32 %lane, %r<4>, %z; .reg .pred %odd;
    mov.u32 %lane, %laneid; and.b32 %r0, %lane, 1; setp.eq.u32 %odd, %r0, 1;
    mov.b32 %r1, 0x3c003c00; mov.b32 %z, 0;
    @%odd bra there;
    mov.b32 %r1, 0x40004000;
  there:
    mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%r2, %r3}, {%r1, %r1}, {%r1}, {%z, %z};
    ld.param.u64 %p, [out]; mad.wide.u32 %p, %lane, 4, %p; st.global.b32 [%p], %r2; ret; })";
  Harness h(body);
  DevicePtr out = h.upload(std::vector<U32>(32));
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Schedule schedule;
    schedule.seed = seed;
    auto fault = h.run("k", shapeOf(1, 32), schedule, out);
    REQUIRE_MESSAGE(!fault, fault->message);
    for (U32 word : h.download<U32>(out, 32)) // 2 × (1 × 1 + 2 × 2 + 1 × 1 + 2 × 2) = 20
      CHECK(word == 0x4d004d00);
  }
  auto fault = h.run("k", shapeOf(1, 24), {}, out);
  REQUIRE(fault);
  CHECK(fault->kind == FaultKind::BarrierMisuse);
  CHECK(fault->message.find("all 32 threads") != std::string::npos);
}

TEST_CASE("wmma loads, multiplies and stores, row- and column-major, in every shape") {
  struct Case {
    std::string shape, types, element;
    U32 m, n, k, a, b, sums;
  };
  const Case cases[] = {{"m16n16k16", "f32.f32", "f16", 16, 16, 16, 8, 8, 8},
                        {"m32n8k16", "f32.f32", "f16", 32, 8, 16, 8, 8, 8},
                        {"m8n32k16", "f32.f32", "f16", 8, 32, 16, 8, 8, 8},
                        {"m16n16k16", "f32.bf16.bf16.f32", "bf16", 16, 16, 16, 4, 4, 8},
                        {"m32n8k16", "f32.bf16.bf16.f32", "bf16", 32, 8, 16, 8, 2, 8},
                        {"m16n16k8", "f32.tf32.tf32.f32", "tf32", 16, 16, 8, 4, 4, 8},
                        {"m16n16k16", "s32.s8.s8.s32", "s8", 16, 16, 16, 2, 2, 8},
                        {"m8n32k16", "s32.s8.s8.s32", "s8", 8, 32, 16, 1, 4, 8}};
  for (const Case &each : cases)
    for (bool aIsRow : {true, false})
      for (bool bIsRow : {true, false}) {
        const Format &format = each.element == "f16"    ? f16
                               : each.element == "bf16" ? bf16
                               : each.element == "s8"   ? s8
                                                        : tf32;
        bool isInteger = each.element == "s8";
        std::string major = std::string(aIsRow ? "row." : "col.") + (bIsRow ? "row." : "col.");
        std::string sumType = isInteger ? "s32" : "f32", at = ".sync.aligned.";
        U32 bytes = format.bits / 8, strideA = (aIsRow ? each.k : each.m) + 16 / bytes;
        std::string text =
            header +
            ".visible .entry k(.param .u64 out, .param .u64 a, .param .u64 b) {\n"
            ".reg .b64 %o, %p, %q; .reg .b32 %a<8>, %b<8>, %c<8>, %s;\n"
            "ld.param.u64 %o, [out]; ld.param.u64 %p, [a]; ld.param.u64 %q, [b];\n"
            "cvta.to.global.u64 %p, %p; mov.u32 %s, " +
            std::to_string(strideA) + ";\n" + "wmma.load.a" + at + (aIsRow ? "row." : "col.") +
            each.shape + ".global." + each.element + " " + registers("a", each.a) +
            ", [%p], %s;\n" + "wmma.load.b" + at + (bIsRow ? "row." : "col.") + each.shape + "." +
            each.element + " " + registers("b", each.b) + ", [%q];\n" + "wmma.load.c" + at +
            "row." + each.shape + "." + sumType + " " + registers("c", 8) + ", [%o];\n" +
            "wmma.mma" + at + major + each.shape + "." + each.types + " " + registers("c", 8) +
            ", " + registers("a", each.a) + ", " + registers("b", each.b) + ", " +
            registers("c", 8) + ";\n" + "wmma.store.d" + at + "col." + each.shape + "." + sumType +
            " [%o], " + registers("c", 8) + ", " + std::to_string(each.m) + ";\nret; }\n";
        Matrix left = numbered(each.m, each.k, 11), right = numbered(each.k, each.n, 12);
        Matrix start = numbered(each.m, each.n, 13);
        auto stored = [&](const Matrix &matrix, bool byRow, U32 stride) {
          std::vector<std::uint8_t> memory(std::size_t{32} * 64 * 4);
          for (U32 row = 0; row < matrix.rows; ++row)
            for (U32 column = 0; column < matrix.columns; ++column) {
              U32 word = format.encode(matrix.at(row, column));
              std::size_t index = byRow ? row * stride + column : column * stride + row;
              std::memcpy(memory.data() + index * bytes, &word, bytes);
            }
          return memory;
        };
        Harness h(text);
        std::vector<U32> sums;
        for (int value : start.values)
          sums.push_back(isInteger ? static_cast<U32>(value) : floatBits(value));
        DevicePtr out = h.upload(sums);
        h.ok("k", shapeOf(1, 32), out, h.upload(stored(left, aIsRow, strideA)),
             h.upload(stored(right, bIsRow, bIsRow ? each.n : each.k)));
        auto result = h.download<U32>(out, sums.size());
        U32 wrong = 0;
        for (U32 row = 0; row < each.m; ++row)
          for (U32 column = 0; column < each.n; ++column) {
            int expected = start.at(row, column);
            for (U32 step = 0; step < each.k; ++step)
              expected += left.at(row, step) * right.at(step, column);
            U32 word = result[std::size_t{column} * each.m + row];
            wrong += (isInteger ? static_cast<int>(word) : fromFloatBits(word)) != expected;
          }
        CAPTURE(text);
        CHECK(wrong == 0);
      }
}
