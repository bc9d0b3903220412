// Writes a Program as PTX. The emitter gives a statement's numbers a meaning that is allowed at its
// place, so that every tree gives a right kernel:
//
//  - barriers of the block, and statements that need them, only where all threads that have not
//    exited come equally often; barriers with a thread count only where no thread has exited;
//  - writes to %u registers only there, so the registers are the same for the block;
//  - shared memory: each thread writes its own slot of a region and reads any slot after a barrier;
//    a region that was read is not written again before another barrier; all shared memory is
//    initialised before any thread exits;
//  - global memory: each thread writes its own 16 bytes; atomics commute, one operation a word;
//  - warp operations carry the mask of the lanes that come here, and read only lanes of that mask.
#ifndef TALLY_VERIFY_GENERATOR_EMITTER_H
#define TALLY_VERIFY_GENERATOR_EMITTER_H

#include "program.h"

#include "../random.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tally::verify {

/// A kernel ready to run: PTX, and the launch as tally-verify's options.
struct GeneratedKernel {
  std::string text;
  std::string name;
  LaunchShape shape;
  std::vector<std::string> arguments; ///< values of --arg
};

GeneratedKernel emit(const Program &program);

class Emitter {
public:
  explicit Emitter(const Program &program);
  GeneratedKernel run();

private:
  /// Threads that come to a statement.
  struct Context {
    bool uniform = true;     ///< all threads of the block that have not exited, equally often
    bool warpUniform = true; ///< all threads of each warp, equally often
    std::string mask = "-1"; ///< mask of the lanes that come here; empty: not known
    unsigned depth = 0;      ///< depth of nested control flow
    bool inLoop = false;
  };
  /// Threads that may have exited before a statement.
  enum class Exited : std::uint8_t { Nobody, Warps, Lanes };
  static constexpr unsigned regions = 3, sharedTotals = 8;
  /// Accesses to shared memory since the block's last barrier.
  struct SharedState {
    std::array<bool, regions> read{};
    bool added = false, totalsRead = false;
    void unknown() { read.fill(true), added = totalsRead = true; }
    void join(const SharedState &other);
  };
  struct Value {
    std::string name, declaration, argument;
  };

  // emit_program.cpp
  void header();
  void variables();
  void function(unsigned index);
  void kernel();
  std::string registers() const;
  void position();
  void kernelStart();
  void initialiseMemory();
  void end();
  void collectParameters();
  void collectUses(const std::vector<Node> &nodes);
  std::string attributes() const;

  // emit_compute.cpp
  void operation(const Node &node, const Context &context);
  void uniformOperation(const Node &node, const Context &context);
  void wide(const Node &node);
  void floating(const Node &node);
  void load(const Node &node);
  void store(const Node &node);
  void parameter(const Node &node);
  void local(const Node &node);
  void globalAtomic(const Node &node);
  void ticket(const Node &node, const Context &context);
  void lookBack(const Node &node, const Context &context);
  std::string ownSlots(std::uint32_t number);
  std::string operand(std::uint32_t number);
  std::string uniformOperand(std::uint32_t number);
  std::string special(std::uint32_t number, bool onlyUniform);

  // emit_control.cpp
  void statements(const std::vector<Node> &nodes, const Context &context);
  void statement(const Node &node, const Context &context);
  void ifStatement(const Node &node, const Context &context);
  void loop(const Node &node, Context context);
  /// The registers that count a loop's turns.
  struct Counter {
    std::string count, limit, more;
  };
  void testedAtEnd(const Node &node, const Context &within, const Counter &counter,
                   const std::string &head, const std::string &end);
  void loopBody(const Node &node, const Context &inner, const std::string &end);
  void switchStatement(const Node &node, const Context &context);
  void scope(const Node &node, const Context &context);
  void leave(const Node &node, const Context &context);
  void returnEarly(const Node &node, const Context &context);
  void call(const Node &node, const Context &context);
  void indirectCall(const Node &node, const Context &context);
  void recursion(const Node &node, const Context &context);
  void callText(const Node &node, std::string_view target, std::string_view depth,
                std::string_view prototype, const Context &context);
  std::string condition(Reach reach, std::uint32_t number);
  bool wantsMask(const std::vector<Node> &nodes) const;
  bool mayExit(const std::vector<Node> &nodes, bool divergent) const;
  Context inner(const Context &context, Reach reach) const;
  std::string label();

  // emit_sync.cpp
  void barrier(std::uint32_t number, bool countAllowed);
  void barrierStatement(const Node &node, const Context &context);
  void sharedAtomic(const Node &node, const Context &context);
  void sharedTotal(const Node &node, const Context &context);
  void exchange(const Node &node, const Context &context);
  void splitBarrier(const Node &node, const Context &context);
  void partBarrier(const Node &node, const Context &context);
  void arrival(const Node &node, const Context &context);
  void warp(const Node &node, const Context &context);
  void shuffle(const Node &node, const Context &context);
  void meet();
  std::string slotOfRegion(unsigned region, std::string_view thread);
  void writeRegion(unsigned region, const Node &node);
  void readRegion(unsigned region, const std::string &thread, const Node &node);

  template <class... T> void line(fmt::format_string<T...> format, T &&...values) {
    noise();
    text += '\t';
    fmt::format_to(std::back_inserter(text), format, std::forward<T>(values)...);
    text += ";\n";
  }
  void place(std::string_view labelName) { text += fmt::format("{}:\n", labelName); }
  void noise();
  // Each value gets its own register, as in compilers' output: the analyses judge a register by all
  // values ever written to it.
  std::string word() { return fmt::format("%x{}", words++); }
  std::string wideWord() { return fmt::format("%w{}", wideWords++); }
  std::string predicate() { return fmt::format("%p{}", predicates++); }
  static std::string varying(std::uint32_t number) { return fmt::format("%v{}", number % 8); }
  static std::string uniform(std::uint32_t number) { return fmt::format("%u{}", number % 4); }
  std::uint32_t threads() const { return static_cast<std::uint32_t>(program.shape.block.count()); }
  std::uint32_t blocks() const { return static_cast<std::uint32_t>(program.shape.grid.count()); }
  std::uint32_t warps() const { return (threads() + 31) / 32; }

  const Program &program;
  std::string text;
  Random random; ///< for choices without a node: layout and noise
  std::vector<Value> values;
  bool usesShared = false, usesLocal = false, usesBoard = false;
  const DeviceFunction *current = nullptr; ///< null in the kernel
  unsigned currentIndex = 0;
  Exited exited = Exited::Nobody;
  SharedState shared;
  bool someLeft = false; ///< a thread, or the whole block
  bool tookTicket = false, lookedBack = false;
  unsigned words = 0, wideWords = 0, predicates = 0, labels = 0, scopes = 0, prototypes = 0;
  std::array<unsigned, 16> scopeLabels{};
};

} // namespace tally::verify

#endif
