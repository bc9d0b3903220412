// PTX text -> Module, of which one entry's statements are held at a time.
//
// Statements and operands take more than ten times the memory of their text, so that a large module
// costs more to keep than to parse. Who looks at one kernel after the other need not keep them:
//
//   EntryReader reader(text);
//   for (std::size_t i = 0; reader.isGood() && i != reader.module().items().size(); ++i)
//     if (reader.module().items()[i].isKernel() && reader.read(i))
//       look(*reader.module().items()[i].function);
//
// Functions that are no entries are there all the time, since kernels may call them.
#ifndef TALLY_PTX_SYNTAX_ENTRY_READER_H
#define TALLY_PTX_SYNTAX_ENTRY_READER_H

#include "tally/ptx/ir/module.h"

#include <cstddef>
#include <memory>
#include <string>

namespace tally::ptx {

class Parser;

/// Reads a module's entries again and again, each to the same Function. Not thread-safe.
class EntryReader {
public:
  /// Parses all but the bodies of entries.
  explicit EntryReader(std::string source);
  ~EntryReader();

  /// Whether no error has been met. parse() of the same text says which it is, the first of all.
  bool isGood() const;
  const Module &module() const;

  /// Reads the body of item `index`, an entry with a body, and forgets the one read before, unless
  /// all are kept. False at an error, after which nothing can be read.
  bool read(std::size_t index);
  /// Reads all bodies and keeps them from now on.
  bool readAll();
  bool keepsAll() const { return allKept; }

  /// The module, with such bodies as it keeps; the reader is done.
  Module takeModule();
  /// The text as it came; the reader is done.
  std::string takeSource();

private:
  void forget();
  bool parse(std::size_t index);

  std::unique_ptr<Parser> parser;
  BumpAllocator statements;    ///< of `current`
  Function *current = nullptr; ///< whose body is held but not kept
  bool allKept = false;
};

} // namespace tally::ptx

#endif
