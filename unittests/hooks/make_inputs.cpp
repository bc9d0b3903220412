// Writes the files that the tests link in: a fatbin container with meaningless bytes, and `.tally`
// sections for it. usage: make_inputs DIRECTORY
#include "tally/bundle/bundle_writer.h"

#include <cstdint>
#include <fstream>
#include <string>

namespace {

using namespace tally;
using namespace tally::bundle;

void put(std::string &bytes, std::uint64_t value, int size) {
  for (int i = 0; i < size; ++i)
    bytes += static_cast<char>(value >> (8 * i));
}

/// A container with only a header and `size` bytes of entries that no code reads.
std::string container() {
  std::string bytes;
  put(bytes, 0xba55ed50, 4);
  put(bytes, 1, 2);
  put(bytes, 16, 2);
  put(bytes, 64, 8);
  return bytes + std::string(64, 'x');
}

/// A bundle with the kernels `mix`, which has all kinds that yield between blocks, and `plain`,
/// which has none; one pointer-sized and one 4-byte parameter.
Bundle bundleOf(std::uint64_t hash) {
  Bundle made;
  made.moduleHash = hash;
  for (const char *name : {"mix", "plain"}) {
    Kernel kernel;
    kernel.name = name;
    kernel.parameters = {{0, 8}, {8, 4}};
    kernel.parameterBytes = 12;
    for (tally::Kind kind : {tally::Kind::Slice, tally::Kind::Guard, tally::Kind::Persistent}) {
      Verdict verdict;
      verdict.kind = kind;
      verdict.status = kernel.name == "mix" ? Status::Emitted : Status::Refused;
      verdict.reason = kernel.name == "mix" ? "" : "test";
      kernel.verdicts.push_back(verdict);
    }
    made.kernels.push_back(kernel);
  }
  return made;
}

void save(const std::string &path, const std::string &bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

} // namespace

int main(int, char **argv) {
  std::string directory = std::string(argv[1]) + "/", bytes = container();
  std::uint64_t hash = hashOf(bytes);
  save(directory + "container.bin", bytes);
  std::string good = write(bundleOf(hash));
  save(directory + "good.bin", good);
  save(directory + "stale.bin", write(bundleOf(hash + 1)));
  std::string damaged = good;
  damaged[damaged.size() / 2] ^= 0x20;
  save(directory + "damaged.bin", damaged);
  return 0;
}
