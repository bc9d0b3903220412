#include "options.h"

#include <doctest/doctest.h>

using namespace inference_server;

namespace {

auto parse(std::vector<const char *> words) {
  words.insert(words.begin(), "inference_server");
  return parseOptions(static_cast<int>(words.size()), words.data());
}

std::string errorOf(std::vector<const char *> words) {
  auto options = parse(std::move(words));
  return options ? "" : options.error().message;
}

bool mentions(const std::string &text, std::string_view part) {
  return text.find(part) != text.npos;
}

} // namespace

TEST_CASE("the device decides the defaults, wherever it stands on the line") {
  auto emulator = parse({});
  REQUIRE(emulator);
  CHECK((*emulator)->device == "emulator");
  auto cuda = parse({"--layers=2", "--device=cuda"});
  REQUIRE(cuda);
  CHECK((*cuda)->requests >= 2000); // the measuring rules ask for 2000 requests in a cell
  CHECK((*cuda)->repetitions >= 5);
  CHECK((*cuda)->encoder.layers == 2);
  CHECK((*cuda)->encoder.width > (*emulator)->encoder.width);
}

TEST_CASE("kinds are read in order; none means none") {
  auto options = parse({"--kinds=slice,guard"});
  REQUIRE(options);
  CHECK((*options)->kinds == std::vector{tally::Kind::Slice, tally::Kind::Guard});
  options = parse({"--kinds=none"});
  REQUIRE(options);
  CHECK((*options)->kinds.empty());
  CHECK(mentions(errorOf({"--kinds=slice,sloce"}), "'slice,sloce'"));
  CHECK(mentions(errorOf({"--kinds="}), "--kinds"));
}

TEST_CASE("modes are read in any order; alone is always the first") {
  auto options = parse({"--modes=tally,low"});
  REQUIRE(options);
  CHECK((*options)->modes == std::vector{Mode::Alone, Mode::LowPriority, Mode::Tally});
  CHECK(mentions(errorOf({"--modes=tally,lwo"}), "'tally,lwo'"));
  CHECK(mentions(errorOf({"--modes="}), "--modes"));
}

TEST_CASE("one size option sets the training's widths and the work of a block") {
  auto options = parse({"--be-size=96"});
  REQUIRE(options);
  CHECK((*options)->training.inputs == 96);
  CHECK((*options)->training.hidden == 96);
  CHECK((*options)->training.chunk == 96);
}

TEST_CASE("the transformer takes its sizes from the training's options") {
  auto options = parse({"--device=cuda", "--be-batch=1000", "--be-layers=2"});
  REQUIRE(options);
  TransformerShape shape = transformerShape(**options);
  CHECK(shape.layers == 2);
  CHECK(shape.width == 512);
  CHECK(shape.headSize() == 64);
  CHECK(shape.sequence == 32);
  CHECK(shape.rows() == 992); // whole sequences
  auto small = parse({"--be-size=24"});
  REQUIRE(small);
  CHECK(transformerShape(**small).headSize() == 8);
  CHECK(mentions(errorOf({"--be-size=20"}), "multiples of 8"));
  CHECK(parse({"--training=perceptron", "--be-size=20"}));
  CHECK(mentions(errorOf({"--training=lstm"}), "'lstm'"));
  // Each training has a default size that suits the emulator.
  CHECK((*parse({}))->training.hidden < (*parse({"--training=perceptron"}))->training.hidden);
}

TEST_CASE("help is no error") {
  auto options = parse({"--requests=3", "--help"});
  REQUIRE(options);
  CHECK_FALSE(options->has_value());
  CHECK(mentions(helpText(), "--be-size=N"));
}

TEST_CASE("an error names what is wrong") {
  CHECK(mentions(errorOf({"--speed=9"}), "--speed"));
  CHECK(mentions(errorOf({"emulator"}), "'emulator'"));
  CHECK(mentions(errorOf({"--device=tpu"}), "'tpu'"));
  CHECK(mentions(errorOf({"--requests=many"}), "'many'"));
  CHECK(mentions(errorOf({"--requests=0"}), "--requests"));
  CHECK(mentions(errorOf({"--load=2"}), "--load"));
  CHECK(mentions(errorOf({"--width=30", "--heads=4"}), "multiple"));
  CHECK(mentions(errorOf({"--width=256", "--heads=2"}), "64 columns"));
  CHECK(mentions(errorOf({"--requests=2", "--repetitions=3"}), "--repetitions"));
  CHECK(mentions(errorOf({"--be-batch=16777216", "--be-size=4096"}), "--be-batch"));
}
