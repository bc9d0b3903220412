// Rules are the rewriter's defects of docs/design/testing.md by number ("defect 3") or sentences of
// lib/include/tally/bundle/abi.h.
#include "mutants.h"

namespace tally::verify {

namespace {

// Kernels that may be missing in launches.txt, since a rewriter may refuse all their kinds.
constexpr const char *funcCtaid = "test/kernels/func_ctaid.ptx func_ctaid --grid=4 --block=32 "
                                  "--arg=ptr:u32:128:zero";
constexpr const char *lookBack = "test/kernels/look_back.ptx look_back --grid=6 --block=32 "
                                 "--arg=ptr:u32:6:zero --arg=ptr:u32:6:zero";

} // namespace

const std::vector<BlindMutant> &blindMutants() {
  static const std::vector<BlindMutant> mutants = {
      {"defect 2", "barrier.sync is not known for a barrier", Kind::Persistent, "several_names",
       R"(barrier\.sync\s[^;]*;)"},
      {"defect 7", "bar.sync behind a divergent exit is not known for a barrier", Kind::Persistent,
       "barrier_divergent_exit", R"(bar\.sync\s[^;]*;)"},
      {"defect 4", "a .func that reads grid registers is left as it is", Kind::Slice, funcCtaid,
       R"(mov\.u32 \s*%r[23], %n?ctaid\.x;)"},
      {"defect 4", "a .func that reads grid registers is left as it is", Kind::Guard, funcCtaid,
       R"(mov\.u32 \s*%r[23], %n?ctaid\.x;)"},
      {"defect 4", "a .func that reads grid registers is left as it is", Kind::Persistent,
       funcCtaid, R"(mov\.u32 \s*%r[23], %n?ctaid\.x;)"},
      {"defect 7", "a barrier with a thread count is overlooked", Kind::Persistent,
       "early_exit_barrier_forms", R"(\tbar\.(sync|red)[^;\n]*;)"},
      {"defect 7", "exit is overlooked", Kind::Persistent, "exit_mid", R"(\bexit;)"},
      {"waits", "a wait for lower blocks is overlooked", Kind::Guard, lookBack,
       R"(@%p3 bra \s*\$L__BB0_3;)"},
  };
  return mutants;
}

namespace {

bool isResume(std::string_view entry) { return entry.ends_with("_resume"); }

Sabotage
onLaunch(std::function<bool(std::string_view, LaunchShape &, tally_launch_params &)> change) {
  Sabotage sabotage;
  sabotage.launch = std::move(change);
  return sabotage;
}

/// Changes the parameters alone.
Sabotage onParameters(const std::function<void(tally_launch_params &)> &change) {
  return onLaunch([change](std::string_view, LaunchShape &, tally_launch_params &params) {
    change(params);
    return true;
  });
}

} // namespace

const std::vector<HostMutant> &hostMutants() {
  static const std::vector<HostMutant> mutants = {
      {"slice: offset", "the host forgets the offset in y", Kind::Slice, "grid_2d",
       [] { return onParameters([](auto &params) { params.offset[1] = 0; }); }},
      {"slice: boxes", "boxes overlap", Kind::Slice, "grid_2d",
       [] {
         return onLaunch([](std::string_view, LaunchShape &shape, tally_launch_params &params) {
           if (params.offset[0] + shape.grid.x < params.grid[0])
             ++shape.grid.x;
           return true;
         });
       }},
      {"slice: boxes", "a box is left out", Kind::Slice, "grid_2d",
       [] {
         return onLaunch([](std::string_view, LaunchShape &, tally_launch_params &params) {
           return params.offset[0] == 0;
         });
       }},
      {"virtual ids", "the extents of the launch instead of the grid's", Kind::Slice, "grid_2d",
       [] {
         return onLaunch([](std::string_view, LaunchShape &shape, tally_launch_params &params) {
           params.grid[0] = shape.grid.x;
           return true;
         });
       }},
      {"virtual ids", "the divisor of x for y too", Kind::Persistent, "grid_3d",
       [] { return onParameters([](auto &params) { params.by_grid_y = params.by_grid_x; }); }},
      {"guard: two lists", "the resume entry reads the list that it writes", Kind::Guard, "grid_2d",
       [] {
         return onLaunch([](std::string_view entry, LaunchShape &, tally_launch_params &params) {
           if (isResume(entry))
             params.list_in = params.list_out;
           return true;
         });
       }},
      {"guard: list", "an entry more of the list is run", Kind::Guard, "grid_2d",
       [] {
         return onLaunch([](std::string_view entry, LaunchShape &shape, tally_launch_params &) {
           shape.grid.x += isResume(entry);
           return true;
         });
       }},
      {"guard: list", "the last entry of the list is forgotten", Kind::Guard, "grid_2d",
       [] {
         Sabotage sabotage;
         sabotage.after = [](tally_launch_state &state) { state.yielded -= state.yielded > 0; };
         return sabotage;
       }},
      {"persistent: counter", "each launch counts from 0 again", Kind::Persistent, "grid_2d",
       [] {
         Sabotage sabotage;
         sabotage.before = [](tally_launch_state &state) { state.next_block = 0; };
         return sabotage;
       }},
      {"persistent: counter", "the last block is not asked for", Kind::Persistent, "grid_2d",
       [] { return onParameters([](auto &params) { --params.blocks; }); }},
      {"persistent: counter", "a block behind the last is asked for", Kind::Persistent, "grid_1d",
       [] { return onParameters([](auto &params) { ++params.blocks; }); }},
      {"epochs", "a launch of no epoch", Kind::Guard, "grid_2d",
       [] { return onParameters([](auto &params) { params.epoch = TALLY_CONTROL_EPOCH_MAX; }); }},
      {"epochs", "a resuming launch of its first launch's epoch", Kind::Guard, "grid_2d",
       [] { return onParameters([](auto &params) { params.epoch = 0; }); }},
      {"polled strongly", "polls that hit a stale line", Kind::Guard, "grid_2d",
       [] {
         Sabotage sabotage;
         sabotage.stalePolls = true;
         return sabotage;
       }},
      {"polled strongly", "polls that hit a stale line", Kind::Persistent, "grid_2d",
       [] {
         Sabotage sabotage;
         sabotage.stalePolls = true;
         return sabotage;
       }},
  };
  return mutants;
}

const std::vector<VerdictMutant> &verdictMutants() {
  static const std::vector<VerdictMutant> mutants = {
      {"defect 1", "nothing of nvcc's text is transformed", "grid_1d",
       [](bundle::Bundle &bundle) { bundle.kernels.clear(); }},
      {"defect 11", "a kernel without parameters is skipped in silence", "no_params",
       [](bundle::Bundle &bundle) {
         std::erase_if(bundle.kernels, [](const auto &each) { return each.parameters.empty(); });
       }},
      {"defect 11", "one refused kernel loses the others of its file", "divergent_barrier",
       [](bundle::Bundle &bundle) {
         for (bundle::Kernel &kernel : bundle.kernels)
           for (Verdict &verdict : kernel.verdicts)
             verdict.status = Status::Refused;
       }},
      {"defect 6", "an mbarrier's kernel is taken for any other", "mbarrier",
       [](bundle::Bundle &bundle) {
         for (Verdict &verdict : bundle.kernels.front().verdicts)
           verdict.status = Status::Emitted;
       }},
  };
  return mutants;
}

} // namespace tally::verify
