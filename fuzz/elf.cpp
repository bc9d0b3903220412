// Any bytes give an error, or an ELF file whose sections lie inside the file.
#include "fuzzer.h"

#include "tally/bundle/bundle_reader.h"
#include "tally/bundle/elf.h"
#include "tally/bundle/fatbin.h"

using namespace tally;

namespace {

void inside(std::string_view file, std::string_view part) {
  fuzz::require(part.empty() || (part.data() >= file.data() &&
                                 part.data() + part.size() <= file.data() + file.size()),
                "a section lies outside of the file");
}

} // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
  std::string_view file = fuzz::textOf(data, size);
  auto view = bundle::ElfView::open(file);
  if (!view) {
    fuzz::require(!view.error().message.empty(), "an error says nothing");
    return 0;
  }
  for (std::uint64_t i = 0; i < view->sectionCount(); ++i)
    if (auto section = view->section(i)) {
      inside(file, section->name);
      inside(file, section->bytes);
    }
  // As the hooks read them.
  if (auto bundles = bundle::findSection(file, ".tally"); bundles && *bundles)
    fuzz::require(bundle::readBundles(**bundles) || !(*bundles)->empty(), "nothing is no error");
  if (auto fatbins = bundle::findSection(file, ".nv_fatbin"); fatbins && *fatbins)
    fuzz::require(bundle::readFatbins(**fatbins) || !(*fatbins)->empty(), "nothing is no error");
  return 0;
}
