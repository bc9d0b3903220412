// The bytes are a tree of the generator: well-formed but unusual kernels, through the whole
// pipeline. Every kernel must parse, and its variants must pass the structural check.
#include "fuzzer.h"

#include "generator/emitter.h"

#include "tally/ptx/syntax/parser.h"
#include "tally/ptx/transforms/rewriter.h"
#include "tally/ptx/transforms/verify.h"

#include <variant>

using namespace tally;
using namespace tally::verify;

namespace {

constexpr unsigned maxDepth = 5;
constexpr auto lastKind = static_cast<std::uint32_t>(NodeKind::LookBack);

/// Numbers from the input, and zeros behind its end.
class Bytes {
public:
  Bytes(const std::uint8_t *data, std::size_t size) : data(data), left(size) {}
  bool empty() const { return left == 0; }
  std::uint32_t byte() {
    if (left == 0)
      return 0;
    --left;
    return *data++;
  }
  std::uint32_t number() { return byte() | byte() << 8 | byte() << 16 | byte() << 24; }

private:
  const std::uint8_t *data;
  std::size_t left;
};

std::vector<Node> statements(Bytes &bytes, unsigned depth) {
  std::vector<Node> result;
  for (std::uint32_t count = bytes.byte() % 8; count != 0 && !bytes.empty(); --count) {
    Node node;
    node.kind = static_cast<NodeKind>(bytes.byte() % (lastKind + 1));
    for (std::uint32_t &number : node.n)
      number = bytes.number();
    bool nests = node.kind == NodeKind::If || node.kind == NodeKind::Loop ||
                 node.kind == NodeKind::Switch || node.kind == NodeKind::Scope ||
                 node.kind == NodeKind::SplitBarrier;
    if (nests && depth < maxDepth) {
      node.body = statements(bytes, depth + 1);
      node.otherwise = statements(bytes, depth + 1);
    }
    result.push_back(std::move(node));
  }
  return result;
}

Program programOf(Bytes &bytes) {
  Program program;
  program.seed = bytes.byte();
  program.layout = bytes.number();
  std::uint32_t flags = bytes.byte();
  program.withoutParameters = flags & 1;
  program.dynamicShared = flags & 2;
  program.noise = flags & 4;
  program.shape.block = {1 + bytes.byte() % 96, 1 + bytes.byte() % 3, 1 + bytes.byte() % 3};
  program.shape.grid = {1 + bytes.byte() % 4, 1 + bytes.byte() % 4, 1 + bytes.byte() % 4};
  for (std::uint32_t count = bytes.byte() % 3; count != 0; --count) {
    DeviceFunction function;
    std::uint32_t bits = bytes.byte();
    function.readsGrid = bits & 1;
    function.hasBarrier = bits & 2;
    function.mayExit = bits & 4;
    function.body = statements(bytes, 2);
    program.functions.push_back(std::move(function));
  }
  program.body = statements(bytes, 0);
  return program;
}

} // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
  Bytes bytes(data, size);
  auto parsed = ptx::parse(emit(programOf(bytes)).text);
  const auto *module = std::get_if<ptx::Module>(&parsed);
  fuzz::require(module, "a generated kernel does not parse");
  auto kernels = ptx::rewrite(*module, {});
  if (auto broken = ptx::verifyVariants(*module, kernels))
    fuzz::require(false, *broken);
  return 0;
}
