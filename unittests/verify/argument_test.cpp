#include "../support/files.h"
#include "argument.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

using namespace tally::verify;

namespace {

std::uint64_t scalarBits(std::string_view spec) {
  auto argument = parseArgument(spec);
  REQUIRE(argument);
  std::uint64_t bits = 0;
  std::memcpy(&bits, argument->scalar.data(), argument->scalar.size());
  return bits;
}

std::vector<std::byte> bufferBytes(std::string_view spec) {
  auto argument = parseArgument(spec);
  REQUIRE(argument);
  REQUIRE(argument->buffer);
  auto bytes = initialBytes(*argument->buffer);
  REQUIRE(bytes);
  return *bytes;
}

} // namespace

TEST_CASE("scalars keep their value and size") {
  CHECK(scalarBits("i32:-2") == 0xfffffffe);
  CHECK(parseArgument("i32:-2")->scalar.size() == 4);
  CHECK(scalarBits("i64:-9223372036854775808") == 0x8000000000000000u);
  CHECK(scalarBits("u32:4294967295") == 0xffffffff);
  CHECK(scalarBits("u64:18446744073709551615") == ~std::uint64_t{0});
  CHECK(scalarBits("u8:200") == 200);
  CHECK(parseArgument("u8:200")->scalar.size() == 1);
  CHECK(scalarBits("f32:1.5") == std::bit_cast<std::uint32_t>(1.5f));
  CHECK(scalarBits("f32:0.1") == std::bit_cast<std::uint32_t>(0.1f));
  CHECK(scalarBits("f64:-1e300") == std::bit_cast<std::uint64_t>(-1e300));
  CHECK(scalarBits("bytes:01ff7e") == 0x7eff01);
  CHECK(parseArgument("bytes:01ff7e")->scalar.size() == 3);
}

TEST_CASE("wrong arguments are refused with the part that is wrong") {
  for (std::string_view spec : {"",
                                "i32",
                                "i32:",
                                "i32:1x",
                                "i32:2147483648",
                                "u32:-1",
                                "u8:256",
                                "i8:-129",
                                "f32:",
                                "f64:a",
                                "half:1",
                                "bytes:",
                                "bytes:1",
                                "bytes:zz",
                                "ptr",
                                "ptr:u32",
                                "ptr:u32:0:zero",
                                "ptr:u32:-1:zero",
                                "ptr:u32:4:ones",
                                "ptr:u32:4:",
                                "ptr:u32:4:random",
                                "ptr:u32:4:random:",
                                "ptr:u32:4:random:x",
                                "ptr:u32:4:@",
                                "ptr:b32:4:zero",
                                "ptr:f64:134217729:zero"}) {
    CAPTURE(spec);
    auto argument = parseArgument(spec);
    REQUIRE_FALSE(argument);
    CHECK(argument.error().message.find(spec) != std::string::npos);
  }
}

TEST_CASE("iota counts in the element's type") {
  auto words = bufferBytes("ptr:u16:3:iota");
  REQUIRE(words.size() == 6);
  CHECK(bitsAt(ElementType::U16, words, 2) == 2);
  auto wrapped = bufferBytes("ptr:u8:300:iota");
  CHECK(bitsAt(ElementType::U8, wrapped, 299) == 299 - 256);
  auto floats = bufferBytes("ptr:f32:4:iota");
  CHECK(bitsAt(ElementType::F32, floats, 3) == std::bit_cast<std::uint32_t>(3.0f));
  auto doubles = bufferBytes("ptr:f64:4:iota");
  CHECK(bitsAt(ElementType::F64, doubles, 3) == std::bit_cast<std::uint64_t>(3.0));
}

TEST_CASE("random integers use the whole range and floats stay in [-1, 1]") {
  auto words = bufferBytes("ptr:i32:4096:random:7");
  std::uint64_t ored = 0, anded = 0xffffffff;
  for (std::size_t i = 0; i < 4096; ++i) {
    ored |= bitsAt(ElementType::I32, words, i);
    anded &= bitsAt(ElementType::I32, words, i);
  }
  CHECK(ored == 0xffffffff);
  CHECK(anded == 0);
  auto floats = bufferBytes("ptr:f32:4096:random:7");
  float least = 0, most = 0;
  for (std::size_t i = 0; i < 4096; ++i) {
    float value =
        std::bit_cast<float>(static_cast<std::uint32_t>(bitsAt(ElementType::F32, floats, i)));
    least = std::fmin(least, value);
    most = std::fmax(most, value);
  }
  CHECK(least >= -1);
  CHECK(least < -0.99);
  CHECK(most <= 1);
  CHECK(most > 0.99);
  CHECK(bufferBytes("ptr:i32:64:random:7") != bufferBytes("ptr:i32:64:random:8"));
  CHECK(bufferBytes("ptr:i32:64:random:7") == bufferBytes("ptr:i32:64:random:7"));
}

TEST_CASE("a file must have exactly the buffer's size") {
  tally::test::TemporaryFolder folder;
  std::string path = folder.file("elements");
  std::ofstream(path, std::ios::binary) << "abcdefgh";
  CHECK(bitsAt(ElementType::U32, bufferBytes("ptr:u32:2:@" + path), 1) == 0x68676665);
  for (const char *count : {"1", "3"}) {
    auto argument = parseArgument("ptr:u32:" + std::string(count) + ":@" + path);
    REQUIRE(argument);
    CHECK_FALSE(initialBytes(*argument->buffer));
  }
  std::filesystem::remove(path);
  auto gone = parseArgument("ptr:u32:2:@" + path);
  REQUIRE(gone);
  CHECK_FALSE(initialBytes(*gone->buffer));
}
