// Any bytes give an error, or a bundle that is written back unchanged. The target also tries them
// behind a header with the right checksum, since otherwise the checksum would reject nearly all
// inputs.
#include "fuzzer.h"

#include "tally/bundle/bundle_reader.h"
#include "tally/bundle/bundle_writer.h"

#include <string>

using namespace tally;

namespace {

void readBack(std::string_view file) {
  auto read = bundle::read(file);
  if (!read) {
    fuzz::require(!read.error().message.empty(), "an error says nothing");
    return;
  }
  fuzz::require(bundle::write(*read) == file, "a bundle is not written back as it was read");
}

/// `payload` behind a right header.
std::string fileOf(std::string_view payload) {
  std::string file(bundle::magic);
  auto put = [&](std::uint64_t value, unsigned bytes) {
    for (unsigned i = 0; i < bytes; ++i)
      file += static_cast<char>(value >> 8 * i & 0xff);
  };
  put(bundle::formatVersion, 4);
  put(TALLY_ABI_VERSION, 4);
  put(bundle::headerBytes + payload.size(), 8);
  put(bundle::hashOf(payload), 8);
  file += payload;
  return file;
}

} // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
  std::string_view bytes = fuzz::textOf(data, size);
  readBack(bytes);
  readBack(fileOf(bytes));
  // The payload of a whole file under a header of its own.
  if (size > bundle::headerBytes)
    readBack(fileOf(bytes.substr(bundle::headerBytes)));
  return 0;
}
