#include "tally/bundle/bundle_writer.h"

#include "tally/bundle/abi.h"
#include "tally/bundle/bundle_reader.h"

#include <cassert>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string_view>
#include <unistd.h>

namespace tally::bundle {

namespace {

void put(std::string &out, std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i)
    out.push_back(static_cast<char>(value >> (8 * i) & 0xff));
}
void putCount(std::string &out, std::size_t count) {
  assert(count <= std::numeric_limits<std::uint32_t>::max());
  put(out, count, 4);
}
void putString(std::string &out, std::string_view text) {
  putCount(out, text.size());
  out += text;
}

void putKernel(std::string &out, const Kernel &kernel) {
  assert(kernel.parameterBytes <= maxParameterBytes);
  putString(out, kernel.name);
  put(out, kernel.parameterBytes, 4);
  put(out, kernel.staticSharedBytes, 4);
  put(out, kernel.bitwiseStable ? 1 : 0, 1);
  put(out, static_cast<std::uint8_t>(kernel.waits), 1);
  put(out, kernel.gridRank, 1);
  put(out, kernel.waitsAreAssumed ? 1 : 0, 1);
  put(out, static_cast<std::uint8_t>(kernel.spending), 1);
  putCount(out, kernel.parameters.size());
  for (const Parameter &parameter : kernel.parameters) {
    assert(std::uint64_t{parameter.offset} + parameter.size <= kernel.parameterBytes);
    put(out, parameter.offset, 4);
    put(out, parameter.size, 4);
  }
  putCount(out, kernel.verdicts.size());
  for (const Verdict &verdict : kernel.verdicts) {
    put(out, static_cast<std::uint8_t>(verdict.kind), 1);
    put(out, static_cast<std::uint8_t>(verdict.status), 1);
    putString(out, verdict.reason);
    putString(out, verdict.message);
    put(out, verdict.line, 4);
    put(out, verdict.recordBytes, 4);
    put(out, verdict.savedSharedBytes, 4);
  }
  put(out, kernel.usesClusters ? 1 : 0, 1);
  put(out, kernel.readsSharedSize ? 1 : 0, 1);
  put(out, kernel.changesVariables ? 1 : 0, 1);
  for (std::uint32_t extent :
       {kernel.requiredCluster.x, kernel.requiredCluster.y, kernel.requiredCluster.z})
    put(out, extent, 4);
}

} // namespace

std::string write(const Bundle &bundle) {
  std::string payload;
  put(payload, bundle.moduleHash, 8);
  putCount(payload, bundle.kernels.size());
  putCount(payload, bundle.images.size());
  for (const Kernel &kernel : bundle.kernels)
    putKernel(payload, kernel);
  for (const Image &image : bundle.images) {
    put(payload, static_cast<std::uint8_t>(image.format), 1);
    put(payload, image.arch, 4);
    put(payload, image.bytes.size(), 8);
    payload += image.bytes;
  }

  std::string file(magic);
  put(file, formatVersion, 4);
  put(file, TALLY_ABI_VERSION, 4);
  put(file, headerBytes + payload.size(), 8);
  put(file, hashOf(payload), 8);
  assert(file.size() == headerBytes);
  return file + payload;
}

Result<void> writeFile(const std::string &path, const Bundle &bundle) {
  std::string contents = write(bundle);
  // In the same directory, since a rename does not cross file systems.
  std::string temporary = path + ".tmp." + std::to_string(getpid());
  std::FILE *file = std::fopen(temporary.c_str(), "wb");
  if (!file)
    return Error{temporary + ": cannot create: " + std::strerror(errno)};
  int failure = 0;
  if (std::fwrite(contents.data(), 1, contents.size(), file) != contents.size())
    failure = errno;
  if (std::fclose(file) != 0 && failure == 0)
    failure = errno;
  if (failure == 0 && std::rename(temporary.c_str(), path.c_str()) != 0)
    failure = errno;
  if (failure == 0)
    return {};
  std::remove(temporary.c_str());
  return Error{path + ": cannot write: " + std::strerror(failure)};
}

} // namespace tally::bundle
