#include "save_record.h"

#include "codings.h"
#include "kept_counter.h"
#include "tally/bundle/abi.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <utility>

namespace tally::ptx {
namespace {

constexpr std::uint32_t roundUp(std::uint32_t bytes, std::uint32_t to) {
  return (bytes + to - 1) / to * to;
}

/// Returns the bits of a register of this type, 1 for a predicate.
unsigned bitsOf(std::string_view type) {
  if (type == "pred")
    return 1;
  if (type.ends_with("x2"))
    return 32;
  if (type.ends_with("128"))
    return 128;
  if (type.ends_with("64"))
    return 64;
  if (type.ends_with("32"))
    return 32;
  return type.ends_with("16") ? 16 : 8;
}

/// Returns the names of a register's scalars.
std::vector<std::string> scalarsOf(const Function &function, RegisterId reg) {
  const RegisterDeclaration &declaration = function.declarationOf(reg);
  std::string name = registerName(declaration, reg);
  if (declaration.vectorWidth == 1)
    return {name};
  std::vector<std::string> names;
  for (unsigned i = 0; i != declaration.vectorWidth; ++i)
    names.push_back(name + "." + "xyzw"[i]);
  return names;
}

/// Returns the widest access that a variable's alignment and size allow.
unsigned unitOf(const Variable &variable, unsigned most) {
  unsigned unit = most;
  while (unit > 1 && (variable.alignment % unit != 0 || variable.sizeInBytes % unit != 0))
    unit /= 2;
  return unit;
}

/// Limit on local arrays that are copied by one instruction per cell: ptxas could not keep an array
/// in registers if the code indexed it with a variable.
constexpr std::uint64_t unrolledLocalBytes = 512;
bool isUnrolled(const Variable &variable) { return variable.sizeInBytes <= unrolledLocalBytes; }

std::uint32_t localCells(const Variable &variable, unsigned unit) {
  return static_cast<std::uint32_t>(variable.sizeInBytes / unit);
}

/// Returns the unit of local memory: 8, 4 or 1.
unsigned localUnit(const Variable &variable) {
  unsigned unit = unitOf(variable, 8);
  return unit == 2 ? 1 : unit;
}

/// Returns the type of an access to `bytes`, through %tally_r0 to 3.
std::string accessType(unsigned bytes) {
  return bytes == 16 ? "v4.b32" : fmt::format("b{}", 8 * bytes);
}

std::string accessValue(unsigned bytes) {
  switch (bytes) {
  case 16:
    return "{%tally_r0, %tally_r1, %tally_r2, %tally_r3}";
  case 8:
    return "%tally_d5";
  case 4:
    return "%tally_r0";
  default:
    return "%tally_half";
  }
}

/// Moves one unit between the record at `there`, an address in global memory or in the stage, and
/// the block's own memory at `here`.
std::string move(Transfer way, unsigned bytes, std::string_view space, std::string_view here,
                 std::string_view there, std::string_view recordSpace = "global") {
  bool save = way == Transfer::Save;
  return fmt::format("ld.{0}.{1} {2}, [{3}];\n\tst.{4}.{1} [{5}], {2};\n\t",
                     save ? space : recordSpace, accessType(bytes), accessValue(bytes),
                     save ? here : there, save ? recordSpace : space, save ? there : here);
}

/// The local variable that holds a staged record.
constexpr std::string_view stageName = "$tally_stage";

/// A piece of a shared variable, in units.
struct SharedPiece {
  std::string_view name;
  std::string begin, end; ///< bytes from the variable's start: integers or registers
  unsigned unit;
  std::string label;
};

/// All threads of the block copy the piece to or from %tally_d4, the address of the variable's
/// start.
std::string copyShared(Transfer way, const SharedPiece &piece) {
  std::string text = fmt::format("mov.u32 %tally_r5, {0};\n"
                                 "\tmad.lo.u32 %tally_at, %tally_thread, {1}, {2};\n"
                                 "\tmul.lo.u32 %tally_step, %tally_threads, {1};\n"
                                 "\n$tally_{3}:\n"
                                 "\t.pragma \"nounroll\";\n"
                                 "\tsetp.ge.u32 %tally_leave, %tally_at, {4};\n"
                                 "\t@%tally_leave bra $tally_past_{3};\n"
                                 "\tcvt.u64.u32 %tally_d3, %tally_at;\n"
                                 "\tadd.s64 %tally_d3, %tally_d4, %tally_d3;\n"
                                 "\tadd.u32 %tally_r4, %tally_r5, %tally_at;\n\t",
                                 piece.name, piece.unit, piece.begin, piece.label, piece.end);
  text += move(way, piece.unit, "shared", "%tally_r4", "%tally_d3");
  return text + fmt::format("add.u32 %tally_at, %tally_at, %tally_step;\n"
                            "\tbra $tally_{0};\n"
                            "\n$tally_past_{0}:\n\t",
                            piece.label);
}

std::string_view wordOf(Transfer way) { return way == Transfer::Save ? "out" : "in"; }

} // namespace

SaveRecord::SaveRecord(const Function &function, const CheckpointPlan &plan, Route route,
                       std::string counterWord)
    : function(function), plan(plan), route(route), counterWord(std::move(counterWord)) {
  registerCells.eight = 1;
  for (const SavePoint &point : plan.points) {
    Cells cells = cellsOf(point);
    registerCells.eight = std::max(registerCells.eight, cells.eight);
    registerCells.four = std::max(registerCells.four, cells.four);
  }
  auto add = [](Cells &cells, const Variable &variable) {
    unsigned unit = localUnit(variable);
    (unit == 8 ? cells.eight : unit == 4 ? cells.four : cells.one) += localCells(variable, unit);
  };
  unrolled = registerCells;
  for (const Variable *variable : plan.local)
    if (isUnrolled(*variable))
      add(unrolled, *variable);
  all = unrolled;
  for (const Variable *variable : plan.local)
    if (!isUnrolled(*variable))
      add(all, *variable);
}

SaveRecord::Cells SaveRecord::cellsOf(const SavePoint &point) const {
  Cells cells{1, 0, 0};
  std::uint32_t predicates = 0;
  for (RegisterId reg : point.saved) {
    const RegisterDeclaration &declaration = function.declarationOf(reg);
    unsigned bits = bitsOf(declaration.type);
    if (bits == 1)
      ++predicates;
    else if (bits >= 64)
      cells.eight += declaration.vectorWidth * bits / 64;
    else
      cells.four += declaration.vectorWidth;
  }
  cells.four += (predicates + 31) / 32;
  return cells;
}

std::uint32_t SaveRecord::recordBytes() const {
  return roundUp(8 * all.eight + 4 * all.four + all.one, 8);
}

std::uint32_t SaveRecord::sharedBytes() const {
  std::uint32_t bytes = 0;
  for (const Variable *variable : plan.shared)
    bytes += roundUp(static_cast<std::uint32_t>(variable->sizeInBytes), 16);
  return bytes;
}

std::string SaveRecord::declarations() const {
  std::string text;
  if (route == Route::Staged)
    text = fmt::format(".local .align 8 .b8 {}[{}];\n\t", stageName,
                       std::max<std::size_t>(8, bytesBefore({1, unrolled.one}, unrolled) - 8));
  return text + ".reg .b64 %tally_slot, %tally_record;\n"
                "\t.reg .b32 %tally_threads, %tally_thread, %tally_at, %tally_step, %tally_stopped,"
                " %tally_size, %tally_whole;\n"
                "\t.reg .b16 %tally_half;\n\t";
}

std::string SaveRecord::locate() const {
  std::string text = fmt::format("mov.u32 %tally_r0, %tid.z;\n"
                                 "\tmov.u32 %tally_r1, %ntid.y;\n"
                                 "\tmov.u32 %tally_r2, %tid.y;\n"
                                 "\tmad.lo.u32 %tally_r0, %tally_r0, %tally_r1, %tally_r2;\n"
                                 "\tmov.u32 %tally_r2, %ntid.x;\n"
                                 "\tmov.u32 %tally_r3, %tid.x;\n"
                                 "\tmad.lo.u32 %tally_thread, %tally_r0, %tally_r2, %tally_r3;\n"
                                 "\tmul.lo.u32 %tally_r1, %tally_r1, %tally_r2;\n"
                                 "\tmov.u32 %tally_r2, %ntid.z;\n"
                                 "\tmul.lo.u32 %tally_threads, %tally_r1, %tally_r2;\n\t");
  text += slotAddress();
  std::uint32_t ahead = sharedBytes();
  if (plan.dynamicShared)
    text += fmt::format("mov.u32 %tally_r0, %dynamic_smem_size;\n"
                        "\tadd.u32 %tally_r0, %tally_r0, {};\n"
                        "\tand.b32 %tally_r0, %tally_r0, -16;\n",
                        ahead + 15);
  else
    text += fmt::format("mov.u32 %tally_r0, {};\n", ahead);
  text += "\tcvt.u64.u32 %tally_d3, %tally_r0;\n"
          "\tadd.s64 %tally_record, %tally_slot, %tally_d3;\n\t";
  return text;
}

std::string SaveRecord::headerAddress() {
  constexpr auto bytes = static_cast<int>(sizeof(tally_save_slot));
  return fmt::format("ld.param.u64 %tally_slot, [$tally_launch+{}];\n"
                     "\tcvta.to.global.u64 %tally_slot, %tally_slot;\n"
                     "\tmov.u32 %tally_r1, %ctaid.x;\n"
                     "\tmul.wide.u32 %tally_d3, %tally_r1, {};\n"
                     "\tadd.s64 %tally_d3, %tally_d3, {};\n"
                     "\tsub.s64 %tally_slot, %tally_slot, %tally_d3;\n\t",
                     offsetof(tally_launch_params, save_area), bytes, bytes);
}

std::string SaveRecord::slotAddress() {
  return fmt::format("ld.param.u64 %tally_slot, [$tally_launch+{}];\n"
                     "\tcvta.to.global.u64 %tally_slot, %tally_slot;\n"
                     "\tld.param.u32 %tally_r0, [$tally_launch+{}];\n"
                     "\tmov.u32 %tally_r1, %ctaid.x;\n"
                     "\tmad.wide.u32 %tally_slot, %tally_r0, %tally_r1, %tally_slot;\n\t",
                     offsetof(tally_launch_params, save_area),
                     offsetof(tally_launch_params, save_stride));
}

/// %tally_d3 = the address of the thread's cell, computed from the address of the cell `last`: a
/// chain of additions takes few registers, in whatever order ptxas schedules the loads and stores.
std::string SaveRecord::cell(Place next, std::optional<Place> &last) const {
  std::string text;
  if (last && last->bytes == next.bytes && last->index < next.index)
    text = fmt::format("mad.wide.u32 %tally_d3, %tally_threads, {}, %tally_d3;\n\t",
                       (next.index - last->index) * next.bytes);
  else
    text = fmt::format("mad.wide.u32 %tally_d3, %tally_thread, {}, %tally_record;\n"
                       "\tmad.wide.u32 %tally_d3, %tally_threads, {}, %tally_d3;\n\t",
                       next.bytes, bytesBefore(next, all));
  last = next;
  return text;
}

std::string SaveRecord::access(Transfer way, unsigned bits, Place place, std::string_view value,
                               std::optional<Place> &last) const {
  bool isStopped = place.bytes == 8 && place.index == 0;
  if (route == Route::Staged && !isStopped)
    return way == Transfer::Save ? fmt::format("st.local.b{} [{}+{}], {};\n\t", bits, stageName,
                                               inStage(place), value)
                                 : fmt::format("ld.local.b{} {}, [{}+{}];\n\t", bits, value,
                                               stageName, inStage(place));
  return cell(place, last) + (way == Transfer::Save
                                  ? fmt::format("st.global.b{} [%tally_d3], {};\n\t", bits, value)
                                  : fmt::format("ld.global.b{} {}, [%tally_d3];\n\t", bits, value));
}

std::string SaveRecord::restoreAlike(unsigned bits, Place place, std::string_view value) const {
  return fmt::format("mad.wide.u32 %tally_d4, %tally_threads, {}, %tally_record;\n"
                     "\tld.global.b{} {}, [%tally_d4];\n\t",
                     bytesBefore(place, all), bits, value);
}

std::string SaveRecord::stopped(Transfer way) const {
  std::optional<Place> last;
  return access(way, 32, {8, 0}, "%tally_stopped", last);
}

std::string SaveRecord::predicates(const std::vector<std::string> &names, Transfer way,
                                   std::uint32_t firstCell, std::optional<Place> &last) const {
  std::string text;
  for (std::size_t first = 0; first < names.size(); first += 32) {
    auto index = firstCell + static_cast<std::uint32_t>(first / 32);
    std::size_t end = std::min(names.size(), first + 32);
    if (std::all_of(names.begin() + first, names.begin() + end,
                    [](const std::string &name) { return name.empty(); }))
      continue;
    if (way == Transfer::Save) {
      text += "mov.u32 %tally_r0, 0;\n\t";
      for (std::size_t i = first; i != end; ++i)
        text +=
            fmt::format("@{} or.b32 %tally_r0, %tally_r0, {};\n\t", names[i], 1u << (i - first));
    }
    text += access(way, 32, {4, index}, "%tally_r0", last);
    if (way == Transfer::Restore)
      for (std::size_t i = first; i != end; ++i)
        if (!names[i].empty())
          text += fmt::format("and.b32 %tally_r1, %tally_r0, {};\n"
                              "\tsetp.ne.u32 {}, %tally_r1, 0;\n\t",
                              1u << (i - first), names[i]);
  }
  return text;
}

std::string SaveRecord::wide(Transfer way, std::uint32_t index, const std::string &name,
                             std::optional<Place> &last) const {
  bool save = way == Transfer::Save;
  std::string text =
      save ? fmt::format("mov.b128 {{%tally_d4, %tally_d5}}, {};\n\t", name) : std::string();
  text += access(way, 64, {8, index}, "%tally_d4", last);
  text += access(way, 64, {8, index + 1}, "%tally_d5", last);
  return save ? text : text + fmt::format("mov.b128 {}, {{%tally_d4, %tally_d5}};\n\t", name);
}

std::string SaveRecord::registers(const SavePoint &point, Transfer way, const Choice &which) const {
  std::string eights, fours;
  std::uint32_t eight = 1, four = 0;
  std::optional<Place> lastEight, lastFour;
  std::vector<std::string> packed;
  std::string counted;
  for (RegisterId reg : point.saved) {
    unsigned bits = bitsOf(function.declarationOf(reg).type);
    bool isAlike = way == Transfer::Restore && std::ranges::binary_search(point.alike, reg);
    bool isChosen = !which || which(reg);
    bool isKept =
        isChosen && !counterWord.empty() && reg == point.strip.counter && canKeepCounter(point);
    auto move = [&](Place place, const std::string &name, std::optional<Place> &last) {
      std::string_view value = isKept ? keptThrough(bits) : name;
      std::string load;
      if (isKept && way == Transfer::Save)
        load = fmt::format("ld.shared.b{} {}, [{}];\n\t", bits, value, counterWord);
      return !isChosen ? std::string()
             : isAlike ? restoreAlike(bits, place, value)
                       : load + access(way, bits, place, value, last);
    };
    if (isKept && way == Transfer::Restore)
      counted = countUp(registerName(function.declarationOf(reg), reg), bits, numberOf(point));
    for (const std::string &name : scalarsOf(function, reg)) {
      if (bits == 1) {
        packed.push_back(isChosen ? name : std::string());
      } else if (bits == 128) {
        if (isChosen)
          eights += wide(way, eight, name, lastEight);
        eight += 2;
      } else if (bits == 64) {
        eights += move({8, eight++}, name, lastEight);
      } else {
        fours += move({4, four++}, name, lastFour);
      }
    }
  }
  return eights + fours + predicates(packed, way, four, lastFour) + counted;
}

SaveRecord::Place SaveRecord::placeOf(const Variable &variable, Cells &next) {
  unsigned unit = localUnit(variable);
  std::uint32_t &cells = unit == 8 ? next.eight : unit == 4 ? next.four : next.one;
  return {unit, std::exchange(cells, cells + localCells(variable, unit))};
}

std::string SaveRecord::arrays(Transfer way) const {
  std::string text;
  Cells next = registerCells;
  std::optional<Place> last;
  for (const Variable *variable : plan.local) {
    if (!isUnrolled(*variable))
      continue;
    Place place = placeOf(*variable, next);
    for (std::uint32_t i = 0; i != localCells(*variable, place.bytes); ++i, ++place.index)
      text += moveLocal(way, fmt::format("{}+{}", variable->name, i * place.bytes), place, last);
  }
  return text;
}

std::string SaveRecord::largeArrays(Transfer way) const {
  std::string text;
  Cells next = unrolled;
  unsigned number = 0;
  for (const Variable *variable : plan.local) {
    if (isUnrolled(*variable))
      continue;
    Place first = placeOf(*variable, next);
    text += copyLocal(way, {variable->name, 0, localCells(*variable, first.bytes), first,
                            fmt::format("$tally_local_{}_{}", wordOf(way), number++)});
  }
  return text;
}

std::string SaveRecord::moveLocal(Transfer way, std::string_view here, Place place,
                                  std::optional<Place> &last) const {
  if (route == Route::Direct)
    return cell(place, last) + move(way, place.bytes, "local", here, "%tally_d3");
  return move(way, place.bytes, "local", here, fmt::format("{}+{}", stageName, inStage(place)),
              "local");
}

/// Begins at a 0 that ptxas cannot know, the stride's low byte: ptxas would keep memory in
/// registers that is accessed only at constant addresses, and would unroll a loop with a known
/// number of turns.
std::string SaveRecord::copyLocal(Transfer way, const LocalPiece &piece) const {
  unsigned unit = piece.first.bytes;
  std::optional<Place> last;
  return cell(piece.first, last) +
         fmt::format("ld.param.u32 %tally_at, [$tally_launch+{}];\n"
                     "\tand.b32 %tally_at, %tally_at, 255;\n"
                     "\tmov.b64 %tally_d4, {};\n"
                     "\tcvt.u64.u32 %tally_d5, %tally_at;\n"
                     "\tadd.s64 %tally_d4, %tally_d4, %tally_d5;\n"
                     "\tadd.s64 %tally_d4, %tally_d4, {};\n"
                     "\n{}:\n"
                     "\t.pragma \"nounroll\";\n\t",
                     offsetof(tally_launch_params, save_stride), piece.name, piece.begin,
                     piece.label) +
         move(way, unit, "local", "%tally_d4", "%tally_d3") +
         fmt::format("mad.wide.u32 %tally_d3, %tally_threads, {0}, %tally_d3;\n"
                     "\tadd.s64 %tally_d4, %tally_d4, {0};\n"
                     "\tadd.u32 %tally_at, %tally_at, {0};\n"
                     "\tsetp.lt.u32 %tally_leave, %tally_at, {1};\n"
                     "\t@%tally_leave bra {2};\n\t",
                     unit, piece.count * unit, piece.label);
}

std::string SaveRecord::stage(Transfer way) const {
  if (route == Route::Direct)
    return {};
  std::string text;
  auto copy = [&](unsigned bytes, std::uint32_t begin, std::uint32_t end) {
    if (begin == end)
      return;
    Place first{bytes, begin};
    text += copyLocal(way, {stageName, inStage(first), end - begin, first,
                            fmt::format("$tally_stage_{}_{}", wordOf(way), bytes)});
  };
  copy(8, 1, unrolled.eight);
  copy(4, 0, unrolled.four);
  copy(1, 0, unrolled.one);
  return text;
}

std::string SaveRecord::shared(Transfer way) const {
  std::string text;
  unsigned number = 0;
  std::size_t offset = 0;
  auto begin = [&] { return fmt::format("add.s64 %tally_d4, %tally_slot, {};\n\t", offset); };
  auto label = [&] { return fmt::format("shared_{}_{}", wordOf(way), number++); };
  for (const Variable *variable : plan.shared) {
    text += begin() + copyShared(way, {variable->name, "0", std::to_string(variable->sizeInBytes),
                                       unitOf(*variable, 16), label()});
    offset += roundUp(static_cast<std::uint32_t>(variable->sizeInBytes), 16);
  }
  if (!plan.dynamicShared)
    return text;
  // The launch sets its size: copies whole units first, then the remainder.
  unsigned unit = std::clamp(plan.dynamicShared->alignment, 1u, 16u);
  std::string_view name = plan.dynamicShared->name;
  text += begin() + fmt::format("mov.u32 %tally_size, %dynamic_smem_size;\n"
                                "\tand.b32 %tally_whole, %tally_size, -{};\n\t",
                                unit);
  text += copyShared(way, {name, "0", "%tally_whole", unit, label()});
  return text + copyShared(way, {name, "%tally_whole", "%tally_size", 1, label()});
}

} // namespace tally::ptx
