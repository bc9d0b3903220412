// The values that a thread saves at a point, their place in the worker's slot, and the PTX that
// stores and loads them.
//
// A slot holds the block's shared memory, static and then dynamic, and the records of its threads.
// A record is cells of 8, 4 and 1 bytes, in this order, cell by cell over all threads, so that the
// stores of a warp are adjacent. Cell 0 tells at which point the thread stopped, 0 where it had
// left the block. The registers follow, at the same place for each point, and then local memory
// behind the longest register part. Predicates are bits of 4-byte cells.
//
// Stores to a slot need addresses in registers while all live values of the point are still live:
// in a small kernel this determines the number of registers. A staged record goes through the
// thread's local memory, whose addresses are constants. The registers go there, and from there to
// the slot when none of them is live any more; and back in the same way.
#ifndef TALLY_LIB_PTX_TRANSFORMS_SAVE_RECORD_H
#define TALLY_LIB_PTX_TRANSFORMS_SAVE_RECORD_H

#include "tally/ptx/analysis/checkpoint_plan.h"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tally::ptx {

/// The direction of the copy.
enum class Transfer { Save, Restore };

/// The route of registers and small local arrays to the slot.
enum class Route { Direct, Staged };

class SaveRecord {
public:
  /// `counterWord`: the word that keeps a point's counter, if any (kept_counter.h).
  SaveRecord(const Function &function, const CheckpointPlan &plan, Route route,
             std::string counterWord = {});

  /// Bytes of one thread's record, a multiple of 8.
  std::uint32_t recordBytes() const;
  /// Bytes of a slot's static shared memory, a multiple of 16.
  std::uint32_t sharedBytes() const;

  /// Declarations of the registers that the texts below use.
  std::string declarations() const;
  /// %tally_slot = the worker's slot.
  static std::string slotAddress();
  /// %tally_slot = the worker's header, a tally_save_slot.
  static std::string headerAddress();
  /// Sets %tally_slot, %tally_threads, %tally_thread and %tally_record, the address of the records,
  /// from %ctaid and tally's parameters.
  std::string locate() const;
  /// Copies the registers of `point`, except the recomputed ones. Direct: behind locate(). Values
  /// that are uniform over the block come from thread 0's record: one address for all threads tells
  /// ptxas that the value is uniform, and that threads which count by it stay together. Staged: to
  /// stage(Save), and from stage(Restore). `which`: restores only these registers.
  using Choice = std::function<bool(RegisterId)>;
  std::string registers(const SavePoint &point, Transfer way, const Choice &which = {}) const;
  /// Copies between local memory and the slot, behind locate(); empty if direct.
  std::string stage(Transfer way) const;
  /// Copies %tally_stopped from or to the record's first cell.
  std::string stopped(Transfer way) const;
  /// Copies local arrays: small arrays like registers, large arrays behind locate().
  std::string arrays(Transfer way) const;
  std::string largeArrays(Transfer way) const;
  /// Copies shared memory. Threads copy it together, so they meet before and after.
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
    std::uint32_t index; ///< among the cells of its size
  };
  /// Returns the first cell of an array, and takes the array's cells off `next`.
  static Place placeOf(const Variable &variable, Cells &next);
  std::string cell(Place next, std::optional<Place> &last) const;
  std::string access(Transfer way, unsigned bits, Place place, std::string_view value,
                     std::optional<Place> &last) const;
  /// Restores a value from thread 0's record.
  std::string restoreAlike(unsigned bits, Place place, std::string_view value) const;
  std::string wide(Transfer way, std::uint32_t index, const std::string &name,
                   std::optional<Place> &last) const;
  /// A predicate without a name is not chosen.
  std::string predicates(const std::vector<std::string> &names, Transfer way,
                         std::uint32_t firstCell, std::optional<Place> &last) const;
  /// Copies one cell of local memory, at the address `here`.
  std::string moveLocal(Transfer way, std::string_view here, Place place,
                        std::optional<Place> &last) const;
  /// Local memory that a loop copies, one cell per turn.
  struct LocalPiece {
    std::string_view name; ///< name of the variable
    std::size_t begin;     ///< bytes from its start
    std::uint32_t count;   ///< number of cells
    Place first;           ///< first cell in the record
    std::string label;
  };
  std::string copyLocal(Transfer way, const LocalPiece &piece) const;
  /// Bytes before the place in a record of `cells`.
  static std::size_t bytesBefore(Place place, const Cells &cells) {
    std::size_t wider = place.bytes == 8 ? 0 : 8 * std::size_t{cells.eight};
    if (place.bytes == 1)
      wider += 4 * std::size_t{cells.four};
    return wider + std::size_t{place.index} * place.bytes;
  }
  /// Bytes from the stage's start. The stage has no cell 0.
  std::size_t inStage(Place place) const { return bytesBefore(place, unrolled) - 8; }

  const Function &function;
  const CheckpointPlan &plan;
  Route route;
  std::string counterWord;
  Cells registerCells; ///< the maximum over the points
  Cells unrolled;      ///< with local arrays that are copied by constant addresses
  Cells all;           ///< with the other local arrays
};

} // namespace tally::ptx

#endif
