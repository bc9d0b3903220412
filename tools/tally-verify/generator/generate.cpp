#include "generate.h"

#include "../random.h"

#include <iterator>

namespace tally::verify {

namespace {

/// Features that a program may use. Each seed draws its own set, so that a feature that one kind of
/// variant refuses is not in every kernel.
struct Features {
  bool shared = false, barriers = false, warp = false;
  bool divergentExits = false; ///< some threads leave while others go on to barriers
  bool barrierForms = false;   ///< counts, run-time ids, arrive, another barrier in either arm
  bool divergentWarp = false;  ///< warp operations under divergent branches
  bool calls = false, gridInCallee = false, barrierInCallee = false, exitInCallee = false;
  bool indirect = false, recursion = false;
  bool ticket = false, lookBack = false;
};

struct Weight {
  NodeKind kind;
  std::uint32_t weight;
  bool Features::*needs; ///< null: always
};

constexpr Weight weights[] = {
    {NodeKind::Operation, 16, nullptr},
    {NodeKind::UniformOperation, 6, nullptr},
    {NodeKind::Wide, 5, nullptr},
    {NodeKind::Float, 3, nullptr},
    {NodeKind::Load, 5, nullptr},
    {NodeKind::Store, 6, nullptr},
    {NodeKind::Parameter, 3, nullptr},
    {NodeKind::Local, 3, nullptr},
    {NodeKind::GlobalAtomic, 4, nullptr},
    {NodeKind::If, 9, nullptr},
    {NodeKind::Loop, 6, nullptr},
    {NodeKind::Switch, 2, nullptr},
    {NodeKind::Scope, 3, nullptr},
    {NodeKind::Leave, 5, nullptr},
    {NodeKind::SharedAtomic, 3, &Features::shared},
    {NodeKind::SharedTotal, 2, &Features::shared},
    {NodeKind::Exchange, 9, &Features::shared},
    {NodeKind::Barrier, 4, &Features::barriers},
    {NodeKind::SplitBarrier, 3, &Features::barrierForms},
    {NodeKind::PartBarrier, 3, &Features::barrierForms},
    {NodeKind::Arrival, 3, &Features::barrierForms},
    {NodeKind::Warp, 6, &Features::warp},
    {NodeKind::Call, 7, &Features::calls},
    {NodeKind::IndirectCall, 5, &Features::indirect},
};

constexpr unsigned maxDepth = 3;

class Generator {
public:
  Generator(std::uint64_t seed, const GenerateOptions &options)
      : random(seed * 0x9e3779b97f4a7c15u + 0x7461), options(options) {
    program.seed = seed;
  }

  Program run() {
    drawFeatures();
    drawShape();
    program.layout = draw();
    program.withoutParameters = oneIn(12);
    program.dynamicShared = features.shared && oneIn(3);
    program.noise = oneIn(4);
    if (features.calls || features.indirect)
      for (std::uint64_t left = 1 + random.below(2); left != 0; --left)
        program.functions.push_back(function());
    program.body = statements(5 + random.below(7), 0);
    if (features.ticket)
      insert({NodeKind::Ticket, numbers(), {}, {}});
    if (features.lookBack)
      program.body.insert(program.body.begin(), {NodeKind::LookBack, numbers(), {}, {}});
    if (options.large)
      program.delay = 200 + static_cast<std::uint32_t>(random.below(4000));
    else if (oneIn(4))
      program.delay = 1 + static_cast<std::uint32_t>(random.below(4));
    return std::move(program);
  }

private:
  std::uint32_t draw() { return static_cast<std::uint32_t>(random.next() >> 32); }
  bool oneIn(std::uint64_t n) { return random.below(n) == 0; }
  std::array<std::uint32_t, 5> numbers() { return {draw(), draw(), draw(), draw(), draw()}; }

  void drawFeatures() {
    features.shared = !oneIn(4);
    features.barriers = !oneIn(4);
    features.warp = oneIn(3);
    features.calls = oneIn(4);
    features.recursion = features.calls && oneIn(3);
    features.ticket = oneIn(6);
    // Where no statement waits for a thread, any thread may leave.
    features.divergentExits = oneIn(6) || !(features.shared || features.barriers || features.warp);
    features.barrierForms = oneIn(8);
    features.divergentWarp = oneIn(8);
    features.gridInCallee = features.calls && oneIn(5);
    features.barrierInCallee = features.calls && oneIn(6);
    features.exitInCallee = features.calls && oneIn(8);
    features.indirect = oneIn(25);
    features.lookBack = oneIn(40);
  }

  void drawShape() {
    static constexpr Dim3 blocks[] = {{32, 1, 1}, {64, 1, 1}, {32, 1, 1}, {96, 1, 1}, {33, 1, 1},
                                      {48, 1, 1}, {7, 1, 1},  {1, 1, 1},  {8, 4, 1},  {5, 7, 1},
                                      {32, 2, 1}, {16, 3, 1}, {4, 2, 4},  {3, 3, 3},  {2, 2, 8},
                                      {40, 2, 1}, {64, 1, 1}, {32, 1, 2}};
    static constexpr Dim3 grids[] = {{1, 1, 1}, {2, 1, 1}, {3, 1, 1}, {5, 1, 1}, {6, 1, 1},
                                     {4, 1, 1}, {2, 3, 1}, {3, 2, 1}, {1, 4, 1}, {2, 2, 1},
                                     {2, 2, 2}, {1, 2, 3}, {2, 1, 3}, {1, 1, 4}, {1, 3, 2}};
    program.shape.block = blocks[random.below(std::size(blocks))];
    program.shape.grid = grids[random.below(std::size(grids))];
    // The rewriter rarely accepts look-back over more than one dimension.
    if (features.lookBack && !oneIn(4))
      program.shape.grid = {static_cast<std::uint32_t>(program.shape.grid.count()), 1, 1};
    if (options.large) {
      // A GPU has some thousand blocks of this size in flight at a time.
      Dim3 &grid = program.shape.grid;
      auto blocks = static_cast<std::uint32_t>(1000 + random.below(9000));
      grid.x *= 1 + blocks / static_cast<std::uint32_t>(grid.count());
    }
  }

  DeviceFunction function() {
    DeviceFunction result;
    inFunction = true;
    result.readsGrid = features.gridInCallee && !oneIn(3);
    result.hasBarrier = features.barrierInCallee && !oneIn(3);
    result.mayExit = features.exitInCallee && !oneIn(3);
    result.body = statements(2 + random.below(4), 1);
    if (features.recursion && oneIn(2))
      result.body.push_back({NodeKind::Recursion, numbers(), {}, {}});
    inFunction = false;
    return result;
  }

  /// Inserts `node` somewhere in the body's first half, where few threads have left.
  void insert(Node node) {
    auto at = static_cast<std::ptrdiff_t>(random.below(program.body.size() / 2 + 1));
    program.body.insert(program.body.begin() + at, std::move(node));
  }

  bool allowed(const Weight &row, unsigned depth) const {
    if (row.needs && !(features.*row.needs))
      return false;
    if (row.kind == NodeKind::Warp && divergent && !features.divergentWarp)
      return false;
    if (row.kind == NodeKind::Leave && divergent && !features.divergentExits && !inFunction)
      return false;
    if (inFunction && (row.kind == NodeKind::Call || row.kind == NodeKind::IndirectCall))
      return false;
    return depth < maxDepth || (row.kind != NodeKind::If && row.kind != NodeKind::Loop &&
                                row.kind != NodeKind::Switch && row.kind != NodeKind::Scope);
  }

  NodeKind kindAt(unsigned depth) {
    std::uint32_t total = 0;
    for (const Weight &row : weights)
      total += allowed(row, depth) ? row.weight : 0;
    auto left = static_cast<std::uint32_t>(random.below(total));
    for (const Weight &row : weights) {
      if (!allowed(row, depth))
        continue;
      if (left < row.weight)
        return row.kind;
      left -= row.weight;
    }
    return NodeKind::Operation;
  }

  Node statement(unsigned depth) {
    Node node{kindAt(depth), numbers(), {}, {}};
    if (node.kind == NodeKind::Leave && !features.divergentExits && !inFunction)
      node.n[0] &= ~3u;
    bool outside = divergent;
    divergent |= reachOf(node) != Reach::Block;
    fill(node, depth);
    divergent = outside;
    return node;
  }

  void fill(Node &node, unsigned depth) {
    switch (node.kind) {
    case NodeKind::If:
    case NodeKind::Loop:
    case NodeKind::Switch:
      node.body = statements(1 + random.below(3), depth + 1);
      if (oneIn(2))
        node.otherwise = statements(1 + random.below(2), depth + 1);
      break;
    case NodeKind::Scope:
      node.body = statements(1 + random.below(3), depth);
      break;
    case NodeKind::SplitBarrier:
      node.body = statements(1, maxDepth);
      node.otherwise = statements(1, maxDepth);
      break;
    default:
      break;
    }
  }

  std::vector<Node> statements(std::uint64_t count, unsigned depth) {
    std::vector<Node> result;
    while (count-- != 0)
      result.push_back(statement(depth));
    return result;
  }

  Random random;
  const GenerateOptions &options;
  Features features;
  Program program;
  bool inFunction = false, divergent = false; ///< place of the statement being drawn
};

} // namespace

Program generate(std::uint64_t seed, const GenerateOptions &options) {
  return Generator(seed, options).run();
}

} // namespace tally::verify
