// What a thread saves at a point, where it lies in its worker's slot, and the PTX that stores and
// loads it.
//
// A slot is the block's shared memory, static and then dynamic, and the records of its threads. A
// record is cells of 8, 4 and 1 bytes, in this order, cell by cell over all threads: what a warp
// stores at a time lies together. Cell 0 says at which point the thread stopped, 0 where it had
// left the block; then registers, each point's from the same place on, and local memory behind the
// longest. Predicates are bits of 4-byte cells.
//
// Stores to a slot need addresses, in registers, while all that is live at the point still is: in a
// small kernel these are what takes the most registers. A staged record goes through local memory
// of the thread, whose addresses are constants: the registers go there, and from there to the slot
// when none of them is live any more; and back likewise.
#ifndef TALLY_LIB_PTX_TRANSFORMS_SAVE_RECORD_H
#define TALLY_LIB_PTX_TRANSFORMS_SAVE_RECORD_H

#include "tally/ptx/analysis/checkpoint_plan.h"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tally::ptx {

/// Which way data goes.
enum class Transfer { Save, Restore };

/// How registers and small local arrays reach the slot.
enum class Route { Direct, Staged };

class SaveRecord {
public:
  /// `counterWord`: where a point's counter is kept, if it is (kept_counter.h).
  SaveRecord(const Function &function, const CheckpointPlan &plan, Route route,
             std::string counterWord = {});

  /// Bytes of one thread's record, a multiple of 8.
  std::uint32_t recordBytes() const;
  /// Bytes of a slot's static shared memory, a multiple of 16.
  std::uint32_t sharedBytes() const;

  /// Declarations of what the texts below use.
  std::string declarations() const;
  /// %tally_slot = the worker's slot.
  static std::string slotAddress();
  /// %tally_slot = the worker's header, a tally_save_slot.
  static std::string headerAddress();
  /// %tally_slot, %tally_threads, %tally_thread and %tally_record, where the records begin, from
  /// %ctaid and tally's parameters.
  std::string locate() const;
  /// The registers of `point` but those that are recomputed. Direct: behind locate(). What is one
  /// value for the block comes from thread 0's record: by an address that is the same for all ptxas
  /// sees that the value is, and that threads which count by it stay together.
  /// Staged: to stage(Save), and from stage(Restore).
  /// `which`: of them these alone, where they are restored.
  using Choice = std::function<bool(RegisterId)>;
  std::string registers(const SavePoint &point, Transfer way, const Choice &which = {}) const;
  /// Between local memory and the slot, behind locate(); empty if direct.
  std::string stage(Transfer way) const;
  /// %tally_stopped from or to the record's first cell.
  std::string stopped(Transfer way) const;
  /// Local arrays: small ones as the registers, large ones behind locate().
  std::string arrays(Transfer way) const;
  std::string largeArrays(Transfer way) const;
  /// Threads copy it together, so they meet before and after.
  std::string shared(Transfer way) const;

private:
  std::size_t numberOf(const SavePoint &point) const { return &point - plan.points.data() + 1; }
  struct Cells {
    std::uint32_t eight = 0, four = 0, one = 0;
  };
  Cells cellsOf(const SavePoint &point) const;
  /// A cell of a record.
  struct Place {
    unsigned bytes;
    std::uint32_t index; ///< among those of its size
  };
  /// Where an array's cells begin, which are taken off `next`.
  static Place placeOf(const Variable &variable, Cells &next);
  std::string cell(Place next, std::optional<Place> &last) const;
  std::string access(Transfer way, unsigned bits, Place place, std::string_view value,
                     std::optional<Place> &last) const;
  /// From thread 0's record.
  std::string restoreAlike(unsigned bits, Place place, std::string_view value) const;
  std::string wide(Transfer way, std::uint32_t index, const std::string &name,
                   std::optional<Place> &last) const;
  /// One without a name is not chosen.
  std::string predicates(const std::vector<std::string> &names, Transfer way,
                         std::uint32_t firstCell, std::optional<Place> &last) const;
  /// One cell of local memory, at the address `here`.
  std::string moveLocal(Transfer way, std::string_view here, Place place,
                        std::optional<Place> &last) const;
  /// Local memory in a loop, a cell at a time.
  struct LocalPiece {
    std::string_view name; ///< of the variable
    std::size_t begin;     ///< bytes from its start
    std::uint32_t count;   ///< of cells
    Place first;           ///< where they lie in the record
    std::string label;
  };
  std::string copyLocal(Transfer way, const LocalPiece &piece) const;
  /// Bytes before the place, of a record of `cells`.
  static std::size_t bytesBefore(Place place, const Cells &cells) {
    std::size_t wider = place.bytes == 8 ? 0 : 8 * std::size_t{cells.eight};
    if (place.bytes == 1)
      wider += 4 * std::size_t{cells.four};
    return wider + std::size_t{place.index} * place.bytes;
  }
  /// Bytes from the stage's start. It has no cell 0.
  std::size_t inStage(Place place) const { return bytesBefore(place, unrolled) - 8; }

  const Function &function;
  const CheckpointPlan &plan;
  Route route;
  std::string counterWord;
  Cells registerCells; ///< the most that a point needs
  Cells unrolled;      ///< and local arrays that are copied by constant addresses
  Cells all;           ///< and the others
};

} // namespace tally::ptx

#endif
