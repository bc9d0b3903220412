// Runs a fuzz target over files: a corpus as a test, and a crash under a debugger.
#include "fuzzer.h"

#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <sstream>
#include <string>

namespace fs = std::filesystem;

namespace {

void replay(const fs::path &path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream content;
  content << stream.rdbuf();
  std::string bytes = std::move(content).str();
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t *>(bytes.data()), bytes.size());
}

} // namespace

int main(int argc, char **argv) {
  std::size_t files = 0;
  for (int i = 1; i < argc; ++i) {
    if (fs::is_regular_file(argv[i])) {
      replay(argv[i]);
      ++files;
      continue;
    }
    for (const fs::directory_entry &entry : fs::directory_iterator(argv[i]))
      if (entry.is_regular_file()) {
        replay(entry.path());
        ++files;
      }
  }
  fmt::print("{} inputs\n", files);
  return files == 0; // a run without any file tests nothing
}
