// Bundles: write and read are inverses, read() finds and names damage, and no bytes crash the
// reader.
#include "tally/bundle/bundle_reader.h"
#include "tally/bundle/bundle_writer.h"

#include "../support/files.h"
#include "../support/mutate.h"

#include <doctest/doctest.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <unistd.h>

using namespace tally;
using namespace tally::bundle;

namespace {

Bundle sample() {
  Bundle bundle;
  bundle.moduleHash = 0xfedcba9876543210u;
  Kernel gemm{"gemm", {{0, 8}, {8, 8}, {16, 4}}, 20, 4096, true, {}};
  gemm.verdicts.push_back({Kind::Slice, Status::Emitted, "", "", 0});
  gemm.verdicts.push_back({Kind::Guard, Status::Refused, "cluster", "It has clusters.", 17});
  gemm.verdicts.push_back({Kind::Persistent, Status::Failed, "ptxas", "out of registers", 3});
  gemm.waits = Waits::LowerBlocks;
  gemm.gridRank = 2;
  gemm.waitsAreAssumed = true;
  gemm.usesClusters = true;
  gemm.readsSharedSize = true;
  gemm.changesVariables = true;
  gemm.requiredCluster = {2, 3, 1};
  gemm.spending = Spending::InPartialRows;
  Kernel empty{"", {}, 0, 0, false, {}};
  bundle.kernels = {gemm, empty};
  bundle.images.push_back({ImageFormat::Ptx, 90, ".version 9.0\n.target sm_90\n"});
  bundle.images.push_back({ImageFormat::Cubin, 90,
                           std::string("\x7f"
                                       "ELF\0\1\2\3",
                                       8)});
  bundle.images.push_back({ImageFormat::Cubin, 80, ""});
  return bundle;
}

bool same(const Bundle &a, const Bundle &b) {
  if (a.moduleHash != b.moduleHash || a.kernels.size() != b.kernels.size() ||
      a.images.size() != b.images.size())
    return false;
  for (std::size_t i = 0; i < a.images.size(); ++i)
    if (a.images[i].format != b.images[i].format || a.images[i].arch != b.images[i].arch ||
        a.images[i].bytes != b.images[i].bytes)
      return false;
  for (std::size_t i = 0; i < a.kernels.size(); ++i) {
    const Kernel &x = a.kernels[i], &y = b.kernels[i];
    if (x.name != y.name || x.parameterBytes != y.parameterBytes ||
        x.staticSharedBytes != y.staticSharedBytes || x.bitwiseStable != y.bitwiseStable ||
        x.waits != y.waits || x.gridRank != y.gridRank || x.waitsAreAssumed != y.waitsAreAssumed ||
        x.usesClusters != y.usesClusters || x.readsSharedSize != y.readsSharedSize ||
        x.changesVariables != y.changesVariables || !(x.requiredCluster == y.requiredCluster) ||
        x.spending != y.spending || x.parameters.size() != y.parameters.size() ||
        x.verdicts.size() != y.verdicts.size())
      return false;
    for (std::size_t j = 0; j < x.parameters.size(); ++j)
      if (x.parameters[j].offset != y.parameters[j].offset ||
          x.parameters[j].size != y.parameters[j].size)
        return false;
    for (std::size_t j = 0; j < x.verdicts.size(); ++j)
      if (x.verdicts[j].kind != y.verdicts[j].kind ||
          x.verdicts[j].status != y.verdicts[j].status ||
          x.verdicts[j].reason != y.verdicts[j].reason ||
          x.verdicts[j].message != y.verdicts[j].message ||
          x.verdicts[j].line != y.verdicts[j].line)
        return false;
  }
  return true;
}

void patch(std::string &bytes, std::size_t offset, std::uint64_t value, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i)
    bytes[offset + i] = static_cast<char>(value >> (8 * i) & 0xff);
}

/// Makes size and checksum of damaged bytes right again, so that the checks behind them are
/// reached.
void reseal(std::string &bytes) {
  if (bytes.size() < headerBytes)
    return;
  patch(bytes, 16, bytes.size(), 8);
  patch(bytes, 24, hashOf(std::string_view(bytes).substr(headerBytes)), 8);
}

std::string errorOf(const std::string &bytes) {
  Result<Bundle> result = read(bytes);
  return result ? std::string("read without an error") : result.error().message;
}

} // namespace

TEST_CASE("what was written is read back") {
  Bundle before = sample();
  std::string bytes = write(before);
  Result<Bundle> after = read(bytes);
  REQUIRE(after);
  CHECK(same(before, *after));
  CHECK(write(*after) == bytes);

  Bundle nothing;
  Result<Bundle> still = read(write(nothing));
  REQUIRE(still);
  CHECK(same(nothing, *still));
}

TEST_CASE("the grids that variants of a waiting kernel take") {
  Kernel kernel;
  CHECK(kernel.variantsTake({5, 6, 7}));
  CHECK_FALSE(kernel.guardTakesTickets());
  kernel.waits = Waits::LowerBlocks;
  CHECK(kernel.guardTakesTickets());
  kernel.gridRank = 2;
  CHECK(kernel.variantsTake({5, 6, 1}));
  CHECK_FALSE(kernel.variantsTake({5, 1, 2}));
  kernel.gridRank = 1;
  CHECK(kernel.variantsTake({5, 1, 1}));
  CHECK_FALSE(kernel.variantsTake({5, 2, 1}));
  CHECK_FALSE(kernel.variantsTake({5, 1, 2}));
}

TEST_CASE("damage is named with its place") {
  std::string good = write(sample());
  CHECK(errorOf("") == "damaged bundle: at byte 0: the magic number reaches beyond the end of the "
                       "file");
  std::string bytes = good;
  bytes[3] = 'x';
  CHECK(errorOf(bytes).find("at byte 0: this is not a Tally bundle") != std::string::npos);
  bytes = good;
  patch(bytes, 8, 77, 4);
  CHECK(errorOf(bytes).find("at byte 8: format version 77") != std::string::npos);
  bytes = good;
  patch(bytes, 12, 78, 4);
  CHECK(errorOf(bytes).find("at byte 12: variants of ABI version 78") != std::string::npos);
  CHECK(errorOf(good + "x").find("at byte 16: the header says") != std::string::npos);
  bytes = good;
  bytes.back() ^= 1;
  bytes[40] ^= 1;
  CHECK(errorOf(bytes).find("at byte 24: the checksum") != std::string::npos);
  bytes = good + "x";
  reseal(bytes);
  CHECK(errorOf(bytes).find("1 bytes too many") != std::string::npos);
}

TEST_CASE("sizes that lie are found before anything is allocated") {
  std::string good = write(sample());
  struct Lie {
    std::size_t offset;
    std::uint64_t value;
    std::size_t size;
    const char *says;
  };
  std::size_t kernel = headerBytes + 16;
  std::size_t parameters = kernel + 4 + 4 + 4 + 4 + 1 + 4;
  // In front of the kernel without a name: the first kernel's facts about clusters.
  Bundle one = sample();
  one.kernels.pop_back();
  one.images.clear();
  std::size_t cluster = write(one).size() - 15;
  const Lie lies[] = {
      {headerBytes + 8, 0xffffffff, 4, "at byte 40: the number of kernels is 4294967295"},
      {headerBytes + 12, 0xffffffff, 4, "at byte 44: the number of images is 4294967295"},
      {kernel, 0xffffffff, 4, "at byte 52: the name of a kernel reaches beyond"},
      {kernel + 8, 0xffffffff, 4, "at byte 56: a kernel's parameters are larger"},
      {kernel + 16, 2, 1, "at byte 64: the bitwise-stable flag is 2"},
      {kernel + 17, 5, 1, "at byte 65: the class of a kernel's waits is 5"},
      {kernel + 18, 4, 1, "at byte 66: the grid rank of a kernel is 4"},
      {kernel + 18, 0, 1, "at byte 66: the grid rank of a kernel is 0"},
      {kernel + 19, 2, 1, "at byte 67: the assumed-waits flag is 2"},
      {kernel + 20, 3, 1, "at byte 68: the spending of a kernel's workers is 3"},
      {parameters, 0xffffffff, 4, "at byte 69: the number of parameters is 4294967295"},
      {parameters + 4, 13, 4, "at byte 73: a parameter lies outside"},
      {parameters + 8, 0xffffffff, 4, "at byte 73: a parameter lies outside"},
      {parameters + 28, 0x10000000, 4, "at byte 97: the number of verdicts is 268435456"},
      {parameters + 32, 5, 1, "at byte 101: the kind of a verdict is 5"},
      {parameters + 33, 3, 1, "at byte 102: the status of a verdict is 3"},
      {cluster, 2, 1, "the cluster flag is 2"},
      {cluster + 1, 2, 1, "the shared-size flag is 2"},
      {cluster + 2, 2, 1, "the changed-variables flag is 2"},
      {cluster + 11, 0, 4, "a kernel's required cluster has an extent of 0"},
      {good.size() - 8, 0xffffffffffffffff, 8, "the image reaches beyond the end"},
      {good.size() - 13, 3, 1, "the format of an image is 3"},
  };
  for (const Lie &lie : lies) {
    std::string bytes = good;
    patch(bytes, lie.offset, lie.value, lie.size);
    reseal(bytes);
    std::string message = errorOf(bytes);
    CAPTURE(message);
    CAPTURE(lie.says);
    CHECK(message.find(lie.says) != std::string::npos);
  }
}

TEST_CASE("1,000 cuts and flips give errors or bundles") {
  std::string good = write(sample());
  int errors = 0, bundles = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    std::string bytes = test::mutate(good, i);
    bool resealed = i % 2 == 0;
    if (resealed)
      reseal(bytes);
    Result<Bundle> result = read(bytes);
    if (!result) {
      ++errors;
      CHECK(result.error().message.find("at byte ") != std::string::npos);
      continue;
    }
    // A bundle that read() accepts is written back as exactly these bytes.
    ++bundles;
    CHECK(write(*result) == bytes);
    CHECK((resealed || bytes == good));
  }
  // Both outcomes occur, so each half of the check runs.
  CHECK(errors > 300);
  CHECK(bundles > 30);
}

TEST_CASE("files are written whole and read back") {
  tally::test::TemporaryFolder folder;
  std::string path = folder.file("bundle");
  REQUIRE(writeFile(path, sample()));
  Result<Bundle> back = readFile(path);
  REQUIRE(back);
  CHECK(same(sample(), *back));
  CHECK_FALSE(std::filesystem::exists(path + ".tmp." + std::to_string(getpid())));
  std::filesystem::resize_file(path, 60);
  Result<Bundle> cut = readFile(path);
  REQUIRE_FALSE(cut);
  CHECK(cut.error().message.find(path + ": damaged bundle: at byte 16") == 0);
  std::remove(path.c_str());

  Result<Bundle> missing = readFile(path);
  REQUIRE_FALSE(missing);
  CHECK(missing.error().message == path + ": cannot open: No such file or directory");
  Result<void> nowhere = writeFile(path + "/no/such/directory", sample());
  REQUIRE_FALSE(nowhere);
  CHECK(nowhere.error().message.find("cannot create: No such file") != std::string::npos);
}

TEST_CASE(
    "bundles one behind the other are read, and damage is named with its offset of the whole") {
  std::string one = write(sample());
  Bundle merged{42, {}, {{ImageFormat::Fatbin, 0, "container"}}};
  std::string two = write(merged), all = one + two + one;
  auto bundles = readBundles(all);
  REQUIRE(bundles);
  REQUIRE(bundles->size() == 3);
  CHECK(same((*bundles)[0], sample()));
  CHECK(same((*bundles)[1], merged));
  CHECK(same((*bundles)[2], sample()));
  CHECK(readBundles("")->empty());

  auto errorWith = [&](std::size_t offset, std::uint64_t value, std::size_t size) {
    std::string damaged = all;
    patch(damaged, offset, value, size);
    auto read = readBundles(damaged);
    REQUIRE_FALSE(read);
    return read.error().message;
  };
  auto at = [&](std::size_t offset) {
    return "damaged bundle: at byte " + std::to_string(one.size() + offset) + ": ";
  };
  CHECK(errorWith(one.size(), 0, 1).starts_with(at(0)));
  CHECK(errorWith(one.size() + 8, 1, 4).starts_with(at(8)));
  CHECK(errorWith(one.size() + 16, ~0ull, 8).starts_with(at(16)));
  CHECK(errorWith(one.size() + 16, 3, 8).starts_with(at(16)));
  CHECK(errorWith(one.size() + 16, two.size() + 1, 8).starts_with(at(24)));
  CHECK(errorWith(one.size() + 40, 1, 1).starts_with(at(24)));
  auto cut = readBundles(all.substr(0, all.size() - 1));
  REQUIRE_FALSE(cut);
  CHECK(cut.error().message.starts_with("damaged bundle: at byte " +
                                        std::to_string(one.size() + two.size() + 16) + ": "));
  CHECK_FALSE(readBundles(all + "x"));
}
