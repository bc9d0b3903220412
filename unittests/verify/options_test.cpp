#include "options.h"

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

using namespace tally;
using namespace tally::verify;

namespace {

Result<Options> parse(std::vector<std::string_view> arguments) { return parseOptions(arguments); }

} // namespace

TEST_CASE("a whole command line") {
  auto options =
      parse({"k.ptx", "--kernel=gemm", "--grid=4,2", "--block=32,2,2", "--cluster=2,1",
             "--shared=64", "--arg=u32:7", "--arg=ptr:f32:8:iota", "--variants=guard,slice",
             "--yield=random:9", "--compare=ulp:3", "--device=cuda"});
  REQUIRE(options);
  CHECK(options->file == "k.ptx");
  CHECK(options->kernel == "gemm");
  CHECK(options->shape.grid == Dim3{4, 2, 1});
  CHECK(options->shape.block == Dim3{32, 2, 2});
  CHECK(options->shape.cluster == Dim3{2, 1, 1});
  CHECK(options->shape.dynamicSharedBytes == 64);
  REQUIRE(options->arguments.size() == 2);
  CHECK(options->arguments[0].scalar.size() == 4);
  CHECK(options->arguments[1].buffer->count == 8);
  CHECK(options->verify.kinds == std::vector<Kind>{Kind::Guard, Kind::Slice});
  CHECK(options->verify.yield.choice == YieldMode::Choice::Random);
  CHECK(options->verify.yield.value == 9);
  CHECK(options->verify.compare == Comparison{CompareMode::Ulp, 3});
  CHECK(options->device == DeviceChoice::Cuda);
}

TEST_CASE("defaults: all kinds, every yield, exact unless order matters, the emulator") {
  auto options = parse({"--kernel=k", "f.ptx", "--grid=1", "--block=1"});
  REQUIRE(options);
  CHECK(options->verify.kinds.size() == allKinds.size());
  CHECK(options->verify.yield.choice == YieldMode::Choice::Every);
  CHECK_FALSE(options->verify.compare);
  CHECK(options->device == DeviceChoice::Emulator);
  CHECK(parse({"--help"})->help);
  CHECK(parse({"x", "--version"})->version);
}

TEST_CASE("wrong command lines name the option") {
  std::vector<std::string_view> good = {"k.ptx", "--kernel=k", "--grid=1", "--block=1"};
  for (std::string_view wrong :
       {"--grid=0", "--grid=1,2,3,4", "--grid=", "--grid=1,", "--block=a", "--shared=-1",
        "--arg=u32", "--variants=", "--variants=slice,", "--variants=stop", "--yield=never",
        "--yield=random:", "--compare=close", "--device=gpu", "--frob=1"}) {
    CAPTURE(wrong);
    auto arguments = good;
    arguments.push_back(wrong);
    auto options = parse(arguments);
    REQUIRE_FALSE(options);
    std::string option(wrong.substr(0, wrong.find('=')));
    CHECK(options.error().message.find(option) != std::string::npos);
  }
  CHECK_FALSE(parse({"k.ptx", "other.ptx", "--kernel=k", "--grid=1", "--block=1"}));
  CHECK_FALSE(parse({"--kernel=k", "--grid=1", "--block=1"}));
  CHECK_FALSE(parse({"k.ptx", "--grid=1", "--block=1"}));
  CHECK_FALSE(parse({"k.ptx", "--kernel=k", "--block=1"}));
  CHECK_FALSE(parse({"k.ptx", "--kernel=k", "--grid=1"}));
  CHECK_FALSE(parse({"k.ptx", "--verbose"}));
}
