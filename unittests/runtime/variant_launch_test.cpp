// VariantLaunch against a model of the variants on the host: with every pattern of yields, each
// virtual block runs exactly once.
#include "tally/runtime/variant_launch.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <random>
#include <set>
#include <vector>

using namespace tally;
using namespace tally::runtime;

namespace {

std::uint32_t divide(std::uint32_t n, tally_divisor by) {
  return static_cast<std::uint32_t>(std::uint64_t{n} * by.multiplier >> by.shift);
}

/// Runs one launch of the user's kernel through one kind, as the rewritten kernels would. `poll(n)`
/// returns whether the request comes right before the n-th poll.
struct Model {
  Dim3 grid;
  std::vector<std::uint64_t> ran; ///< linear virtual ids in the order in which they ran
  std::uint32_t polls = 0, launches = 0, yields = 0, partialYields = 0;
  std::uint64_t controlEpoch = 0;
  std::function<bool(std::uint32_t)> request;

  void run(Dim3 id) { ran.push_back(id.x + grid.x * (id.y + std::uint64_t{grid.y} * id.z)); }
  void runLinear(std::uint32_t id, const tally_launch_params &params) {
    std::uint32_t rows = divide(id, params.by_grid_x);
    std::uint32_t z = divide(rows, params.by_grid_y);
    run({id - rows * params.grid[0], rows - z * params.grid[1], z});
  }
  bool toldToYield(std::uint64_t launchEpoch) {
    if (request(polls++))
      ++controlEpoch;
    return controlEpoch > launchEpoch;
  }

  void slice(const PhysicalLaunch &launch) {
    const Dim3 &box = launch.shape.grid;
    for (std::uint32_t z = 0; z < box.z; ++z)
      for (std::uint32_t y = 0; y < box.y; ++y)
        for (std::uint32_t x = 0; x < box.x; ++x)
          run({x + launch.params.offset[0], y + launch.params.offset[1],
               z + launch.params.offset[2]});
  }
  void guard(const PhysicalLaunch &launch, std::uint64_t epoch, tally_launch_state &state,
             const std::vector<std::uint32_t> &in, std::vector<std::uint32_t> &out) {
    const Dim3 &box = launch.shape.grid;
    for (std::uint32_t block = 0; block < box.count(); ++block) {
      std::uint32_t id = launch.resumeEntry ? in.at(block) : block;
      if (toldToYield(epoch))
        out.at(state.yielded++) = id;
      else
        runLinear(id, launch.params);
    }
  }
  void persistent(const PhysicalLaunch &launch, std::uint64_t epoch, tally_launch_state &state) {
    // Workers take turns, so that several workers hold a block when the request comes.
    std::vector<bool> live(launch.shape.grid.count(), true);
    while (std::find(live.begin(), live.end(), true) != live.end())
      for (std::size_t worker = 0; worker < live.size(); ++worker) {
        if (!live[worker])
          continue;
        live[worker] = !toldToYield(epoch);
        if (!live[worker])
          continue;
        std::uint32_t id = state.next_block++;
        live[worker] = id < launch.params.blocks;
        if (live[worker])
          runLinear(id, launch.params);
      }
  }

  void guardWithTickets(const PhysicalLaunch &launch, std::uint64_t epoch,
                        tally_launch_state &state) {
    for (std::uint32_t block = 0; block < launch.shape.grid.count(); ++block)
      if (!toldToYield(epoch))
        runLinear(state.next_block++, launch.params);
  }

  void execute(VariantLaunch progress, bool tickets = false) {
    std::vector<std::uint32_t> list;
    while (!progress.finished()) {
      PhysicalLaunch launch = progress.next();
      REQUIRE(++launches < 10000);
      REQUIRE(launch.shape.grid.count() >= 1);
      std::uint64_t epoch = controlEpoch;
      tally_launch_state state = launch.state;
      std::vector<std::uint32_t> out(launch.listCapacity);
      if (launch.readsList)
        REQUIRE(launch.shape.grid.count() <= list.size());
      std::size_t before = ran.size();
      if (progress.kind() == Kind::Slice)
        slice(launch);
      else if (tickets)
        guardWithTickets(launch, epoch, state);
      else if (progress.kind() == Kind::Guard)
        guard(launch, epoch, state, list, out);
      else
        persistent(launch, epoch, state);
      REQUIRE(progress.plausible(state));
      CHECK(progress.ranNothing(state) == (ran.size() == before));
      bool yielded = progress.absorb(state);
      CHECK(yielded == (progress.kind() != Kind::Slice && !progress.finished()));
      yields += yielded;
      partialYields += yielded && ran.size() != before;
      list = std::move(out);
    }
  }

  void checkEachBlockOnce() {
    std::vector<std::uint64_t> sorted = ran;
    std::sort(sorted.begin(), sorted.end());
    bool once = sorted.size() == grid.count();
    for (std::size_t i = 0; once && i < sorted.size(); ++i)
      once = sorted[i] == i;
    CHECK(once);
  }
};

LaunchShape shapeOf(Dim3 grid) { return {grid, {32, 2, 1}, 256}; }

const std::vector<Dim3> smallGrids = {{1, 1, 1}, {5, 1, 1}, {1, 5, 1}, {1, 1, 5},
                                      {2, 3, 1}, {3, 1, 2}, {1, 2, 3}, {2, 2, 2}};

} // namespace

TEST_CASE("divisors are exact below 2^31") {
  std::mt19937 random(1);
  std::vector<std::uint32_t> divisors = {1,     2,          3,          5,          7,         641,
                                         65535, 0x40000000, 0x40000001, 0x7ffffffe, 0x7fffffff};
  for (int i = 0; i < 200; ++i)
    divisors.push_back(std::max<std::uint32_t>(1, (random() & 0x7fffffff) >> random() % 31));
  for (std::uint32_t d : divisors) {
    tally_divisor by = divisorOf(d);
    std::vector<std::uint32_t> numbers = {0, 1, d - 1, d, 0x7ffffffe, 0x7fffffff};
    for (int i = 0; i < 100; ++i) {
      std::uint32_t multiple = random() % (0x7fffffff / d + 1) * d;
      numbers.push_back(multiple);
      numbers.push_back(multiple == 0 ? 0 : multiple - 1);
    }
    bool exact = true;
    for (std::uint32_t n : numbers)
      exact = exact && divide(n, by) == n / d;
    CAPTURE(d);
    CHECK(exact);
  }
}

TEST_CASE("slices cover the grid once, in the order of block ids") {
  for (Dim3 grid : {Dim3{1, 1, 1}, Dim3{7, 1, 1}, Dim3{4, 5, 3}, Dim3{1, 6, 5}, Dim3{3, 1, 9}})
    for (std::uint32_t sliceBlocks = 1; sliceBlocks <= grid.count() + 2; ++sliceBlocks) {
      Model model{grid};
      model.execute(VariantLaunch(Kind::Slice, shapeOf(grid), sliceBlocks, 1));
      model.checkEachBlockOnce();
      CHECK(std::is_sorted(model.ran.begin(), model.ran.end()));
      CHECK(model.launches >= (grid.count() + sliceBlocks - 1) / sliceBlocks);
      if (sliceBlocks >= grid.count())
        CHECK(model.launches == 1);
    }
}

TEST_CASE("without a request one launch does it all") {
  for (Kind kind : {Kind::Guard, Kind::Persistent})
    for (Dim3 grid : smallGrids) {
      Model model{grid};
      model.request = [](std::uint32_t) { return false; };
      model.execute(VariantLaunch(kind, shapeOf(grid), 1, 3));
      model.checkEachBlockOnce();
      CHECK(model.launches == 1);
      CHECK(model.yields == 0);
    }
}

TEST_CASE("requests at every set of the first 12 polls") {
  std::uint32_t partial = 0;
  for (Kind kind : {Kind::Guard, Kind::Persistent})
    for (Dim3 grid : smallGrids)
      for (std::uint32_t mask = 0; mask < 4096; ++mask) {
        Model model{grid};
        model.request = [&](std::uint32_t poll) { return poll < 12 && (mask >> poll & 1) != 0; };
        model.execute(VariantLaunch(kind, shapeOf(grid), 1, 2));
        model.checkEachBlockOnce();
        partial += model.partialYields;
      }
  CHECK(partial > 10000);
}

TEST_CASE("random requests on larger grids") {
  std::mt19937 random(7);
  for (int i = 0; i < 300; ++i) {
    auto upTo = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n + 1); };
    Dim3 grid{upTo(40), upTo(5), upTo(4)};
    std::uint32_t workers = upTo(12), rarity = 1 + upTo(30);
    for (Kind kind : {Kind::Guard, Kind::Persistent}) {
      Model model{grid};
      model.request = [&](std::uint32_t) { return random() % rarity == 0; };
      model.execute(VariantLaunch(kind, shapeOf(grid), 1, workers));
      model.checkEachBlockOnce();
      if (kind == Kind::Persistent)
        CHECK(std::is_sorted(model.ran.begin(), model.ran.end()));
    }
  }
}

TEST_CASE("a guard with tickets runs the blocks in order") {
  std::mt19937 random(9);
  std::uint32_t partial = 0;
  for (int i = 0; i < 300; ++i) {
    auto upTo = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n + 1); };
    Dim3 grid{upTo(20), upTo(5), upTo(4)};
    std::uint32_t rarity = 1 + upTo(30);
    Model model{grid};
    model.request = [&](std::uint32_t) { return random() % rarity == 0; };
    model.execute(VariantLaunch(Kind::Guard, shapeOf(grid), 1, 1, true), true);
    model.checkEachBlockOnce();
    CHECK(std::is_sorted(model.ran.begin(), model.ran.end()));
    partial += model.partialYields;
  }
  CHECK(partial > 100);
}

TEST_CASE("launches of a guard with tickets") {
  VariantLaunch guard(Kind::Guard, shapeOf({6, 2, 1}), 1, 1, true);
  CHECK(guard.next().shape.grid == Dim3{12, 1, 1});
  CHECK(guard.next().params.blocks == 12);
  CHECK(guard.next().listCapacity == 0);
  CHECK(guard.plausible({.next_block = 12}));
  CHECK_FALSE(guard.plausible({.next_block = 13}));
  CHECK(guard.ranNothing({.next_block = 0}));
  CHECK(guard.absorb({.next_block = 0}));
  CHECK(guard.absorb({.next_block = 9}));
  CHECK(guard.next().shape.grid == Dim3{3, 1, 1});
  CHECK(guard.next().state.next_block == 9);
  CHECK_FALSE(guard.next().resumeEntry);
  CHECK_FALSE(guard.next().readsList);
  CHECK_FALSE(guard.plausible({.next_block = 8}));
  CHECK_FALSE(guard.absorb({.next_block = 12}));
  CHECK(guard.finished());
}

TEST_CASE("shape and parameters of a launch") {
  LaunchShape user = shapeOf({6, 2, 1});
  PhysicalLaunch guard = VariantLaunch(Kind::Guard, user, 1, 1).next();
  CHECK(guard.shape.grid == user.grid);
  CHECK(guard.shape.block == user.block);
  CHECK(guard.shape.dynamicSharedBytes == 256);
  CHECK(guard.listCapacity == 12);
  CHECK_FALSE(guard.resumeEntry);
  CHECK_FALSE(guard.readsList);

  VariantLaunch persistent(Kind::Persistent, user, 1, 5);
  CHECK(persistent.next().shape.grid == Dim3{5, 1, 1});
  CHECK(persistent.next().params.blocks == 12);
  CHECK(persistent.absorb({.next_block = 9}));
  CHECK(persistent.next().shape.grid == Dim3{3, 1, 1});
  CHECK(persistent.next().state.next_block == 9);
  CHECK_FALSE(persistent.absorb({.next_block = 15}));
  CHECK(persistent.finished());

  VariantLaunch resumed(Kind::Guard, user, 1, 1);
  CHECK(resumed.absorb({.yielded = 4}));
  CHECK(resumed.next().resumeEntry);
  CHECK(resumed.next().readsList);
  CHECK(resumed.next().shape.grid == Dim3{4, 1, 1});
  CHECK(resumed.next().listCapacity == 4);
  CHECK(resumed.next().params.grid[0] == 6);
  CHECK(resumed.next().params.grid[1] == 2);
}

TEST_CASE("saved blocks are gone on with by as many workers as saved them") {
  VariantLaunch launch(Kind::Checkpoint, shapeOf({10, 1, 1}), 1, 4, false, 64);
  CHECK(launch.leastWorkers() == 1);
  CHECK(launch.absorb({.next_block = 3, .saved = 2}, 7, 3)); // 3 of the 4 workers were launched
  CHECK(launch.leastWorkers() == 3);
  CHECK(launch.next().params.resume == TALLY_SAVED_UNDER(7));
  CHECK(launch.absorb({.next_block = 5, .saved = 1}, 9, 4));
  CHECK(launch.leastWorkers() == 4);
  CHECK(launch.absorb({.next_block = 8}, 11, 4));
  CHECK(launch.leastWorkers() == 1);
}

TEST_CASE("states that no launch can have left") {
  LaunchShape user = shapeOf({10, 1, 1});
  VariantLaunch guard(Kind::Guard, user, 1, 1);
  CHECK(guard.plausible({.yielded = 10}));
  CHECK_FALSE(guard.plausible({.yielded = 11}));
  guard.absorb({.yielded = 3});
  CHECK(guard.plausible({.yielded = 3}));
  CHECK_FALSE(guard.plausible({.yielded = 4}));
  VariantLaunch persistent(Kind::Persistent, user, 1, 4);
  CHECK(persistent.plausible({.next_block = 14}));
  CHECK_FALSE(persistent.plausible({.next_block = 15}));
  persistent.absorb({.next_block = 6});
  CHECK_FALSE(persistent.plausible({.next_block = 5}));
}

TEST_CASE("clusters are launched, yield and are resumed as wholes") {
  LaunchShape user = shapeOf({6, 4, 2});
  user.cluster = {3, 2, 1};
  VariantLaunch guard(Kind::Guard, user, 1, 1);
  CHECK(guard.next().shape.grid == user.grid);
  CHECK(guard.next().shape.cluster == user.cluster);
  CHECK(guard.next().listCapacity == 8);
  CHECK(guard.plausible({.yielded = 8}));
  CHECK_FALSE(guard.plausible({.yielded = 9}));
  CHECK(guard.ranNothing({.yielded = 8}));
  CHECK(guard.absorb({.yielded = 5}));
  CHECK(guard.next().resumeEntry);
  CHECK(guard.next().shape.grid == Dim3{15, 2, 1});
  CHECK(guard.next().shape.cluster == user.cluster);
  CHECK(guard.next().listCapacity == 5);
  CHECK_FALSE(guard.plausible({.yielded = 6}));
  CHECK(guard.ranNothing({.yielded = 5}));
  CHECK_FALSE(guard.absorb({.yielded = 0}));
  CHECK(guard.finished());
}

TEST_CASE("slices of whole clusters cover the grid once") {
  std::uint32_t several = 0;
  for (Dim3 cluster : {Dim3{1, 1, 1}, Dim3{2, 1, 1}, Dim3{2, 2, 1}, Dim3{1, 2, 2}, Dim3{3, 2, 2}})
    for (std::uint32_t sliceBlocks = 1; sliceBlocks <= 150; ++sliceBlocks) {
      LaunchShape user = shapeOf({6, 4, 6});
      user.cluster = cluster;
      VariantLaunch slices(Kind::Slice, user, sliceBlocks, 1);
      Model model{user.grid};
      while (!slices.finished()) {
        PhysicalLaunch launch = slices.next();
        const Dim3 &box = launch.shape.grid;
        const std::uint32_t *offset = launch.params.offset;
        CHECK((box.x % cluster.x == 0 && box.y % cluster.y == 0 && box.z % cluster.z == 0));
        CHECK((offset[0] % cluster.x == 0 && offset[1] % cluster.y == 0 &&
               offset[2] % cluster.z == 0));
        CHECK(box.count() <= std::max<std::uint64_t>(sliceBlocks, cluster.count()));
        model.slice(launch);
        slices.absorb({});
        ++model.launches;
      }
      model.checkEachBlockOnce();
      several += model.launches > 1;
    }
  CHECK(several > 300);
}

TEST_CASE("the cluster of the variants' launches") {
  bundle::Kernel kernel;
  LaunchShape shape = shapeOf({8, 1, 1});
  shape.cluster = {2, 1, 1};
  // A kernel that cannot read its cluster is launched without one.
  CHECK(shapeForVariants(kernel, shape).cluster == Dim3{0, 0, 0});
  kernel.usesClusters = true;
  CHECK(shapeForVariants(kernel, shape).cluster == Dim3{2, 1, 1});
  shape.cluster = {0, 0, 0};
  CHECK(shapeForVariants(kernel, shape).cluster == Dim3{0, 0, 0});
  kernel.requiredCluster = {4, 1, 1};
  CHECK(shapeForVariants(kernel, shape).cluster == Dim3{4, 1, 1});
}

TEST_CASE("the counter cannot wrap at the largest grids") {
  CHECK(VariantLaunch::maxBlocks(Kind::Guard, 1000) == 0x7fffffff);
  CHECK(VariantLaunch::maxBlocks(Kind::Persistent, 1000) + 1000 == 0x7fffffff);
  Dim3 huge{0x7fffffff, 65535, 65535};
  CHECK(VariantLaunch::maxBlocks(Kind::Slice, 1) >= huge.count());
  VariantLaunch slices(Kind::Slice, shapeOf(huge), 0xffffffff, 1);
  CHECK(slices.next().shape.grid == Dim3{0x7fffffff, 2, 1});
}
