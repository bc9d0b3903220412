// Any bytes give an error that names an offset, or containers whose entries stay unchanged. Entries
// that can be decompressed are written and read back unchanged.
#include "fuzzer.h"

#include "tally/bundle/fatbin.h"
#include "tally/bundle/fatbin_writer.h"

#include <string>

using namespace tally;

namespace {

/// Limit on one entry's payload: a larger payload is an error, so that a decompression bomb causes
/// no large allocation.
constexpr std::size_t limit = std::size_t{4} << 20;

void readBack(const bundle::FatbinContainer &container) {
  bundle::FatbinWriter same;
  for (const bundle::FatbinEntry &entry : container.entries) {
    same.keep(entry);
    auto payload = bundle::decompress(entry, limit);
    if (!payload) {
      fuzz::require(!payload.error().message.empty(), "an error says nothing");
      continue;
    }
    fuzz::require(payload->size() <= limit, "a payload is above the limit");
    bundle::FatbinWriter other;
    fuzz::require(static_cast<bool>(other.replace(entry, *payload)), "a payload is not written");
    std::string bytes = other.container();
    auto again = bundle::readFatbin(bytes);
    fuzz::require(again && again->entries.size() == 1, "a written container is not read");
    auto text = bundle::decompress(again->entries.front(), limit + 8);
    fuzz::require(text && text->starts_with(*payload), "a payload is read back differently");
    fuzz::require(again->entries.front().options == entry.options &&
                      again->entries.front().ident == entry.ident,
                  "an entry is read back differently");
  }
  fuzz::require(same.container() == container.bytes, "a container is not written as it was read");
}

} // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
  std::string_view bytes = fuzz::textOf(data, size);
  auto containers = bundle::readFatbins(bytes);
  if (!containers) {
    fuzz::require(containers.error().message.starts_with("damaged fatbin: at byte "),
                  "an error names no offset");
    return 0;
  }
  for (const bundle::FatbinContainer &container : *containers)
    readBack(container);
  return 0;
}
