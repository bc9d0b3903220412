// What a thread saves at a point, where it lies in its worker's slot, and the PTX that stores and
// loads it.
//
// A slot is the block's shared memory, static and then dynamic, and the records of its threads. A
// record is cells of 8, 4 and 1 bytes, in this order, cell by cell over all threads: what a warp
// stores at a time lies together. Cell 0 says at which point the thread stopped, 0 where it had
// left the block; then registers, each point's from the same place on, and local memory behind the
// longest. Predicates are bits of 4-byte cells.
#ifndef TALLY_LIB_PTX_TRANSFORMS_SAVE_RECORD_H
#define TALLY_LIB_PTX_TRANSFORMS_SAVE_RECORD_H

#include "tally/ptx/analysis/checkpoint_plan.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tally::ptx {

/// Which way data goes.
enum class Transfer { Save, Restore };

class SaveRecord {
public:
  SaveRecord(const Function &function, const CheckpointPlan &plan);

  /// Bytes of one thread's record, a multiple of 8.
  std::uint32_t recordBytes() const;
  /// Bytes of a slot's static shared memory, a multiple of 16.
  std::uint32_t sharedBytes() const;

  /// `.reg` declarations of what the texts below use.
  static std::string declarations();
  /// %tally_slot = the worker's slot.
  static std::string slotAddress();
  /// %tally_slot = the worker's header, a tally_save_slot.
  static std::string headerAddress();
  /// %tally_slot, %tally_threads, %tally_thread and %tally_record, where the records begin, from
  /// %ctaid and tally's parameters.
  std::string locate() const;
  /// The registers of `point`; restoring, also those that are recomputed.
  std::string registers(const SavePoint &point, Transfer way) const;
  /// %tally_stopped from or to the record's first cell.
  std::string stopped(Transfer way) const;
  std::string local(Transfer way) const;
  /// Threads copy it together, so they meet before and after.
  std::string shared(Transfer way) const;

private:
  struct Cells {
    std::uint32_t eight = 0, four = 0, one = 0;
  };
  Cells cellsOf(const SavePoint &point) const;
  /// A cell of a record.
  struct Place {
    unsigned bytes;
    std::uint32_t index; ///< among those of its size
  };
  std::string cell(Place next, std::optional<Place> &last) const;
  std::string access(Transfer way, unsigned bits, Place place, std::string_view value,
                     std::optional<Place> &last) const;
  std::string wide(Transfer way, std::uint32_t index, const std::string &name,
                   std::optional<Place> &last) const;
  std::string predicates(const std::vector<std::string> &names, Transfer way,
                         std::uint32_t firstCell, std::optional<Place> &last) const;
  std::string copyLocal(Transfer way, const Variable &variable, unsigned unit, std::uint32_t first,
                        unsigned number) const;

  const Function &function;
  const CheckpointPlan &plan;
  Cells registerCells; ///< the most that a point needs
  Cells all;           ///< with local memory
};

} // namespace tally::ptx

#endif
