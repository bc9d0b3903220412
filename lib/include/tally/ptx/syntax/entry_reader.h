// PTX text -> Module that holds the statements of one entry at a time.
//
// Statements and operands take more than ten times the memory of their text, so a large module
// costs more to keep than to parse. A caller that looks at the kernels one by one need not keep
// them:
//
//   EntryReader reader(text);
//   for (std::size_t i = 0; reader.isGood() && i != reader.module().items().size(); ++i)
//     if (reader.module().items()[i].isKernel() && reader.read(i))
//       look(*reader.module().items()[i].function);
//
// The module always holds the bodies of other functions, since kernels may call them.
#ifndef TALLY_PTX_SYNTAX_ENTRY_READER_H
#define TALLY_PTX_SYNTAX_ENTRY_READER_H

#include "tally/ptx/ir/module.h"

#include <cstddef>
#include <memory>
#include <string>

namespace tally::ptx {

class Parser;

/// Reads the entries of a module repeatedly, each into the same Function. Not thread-safe.
class EntryReader {
public:
  /// Parses everything except the bodies of entries.
  explicit EntryReader(std::string source);
  ~EntryReader();

  /// Whether no error has been met. parse() of the same text returns the first error.
  bool isGood() const;
  const Module &module() const;

  /// Reads the body of item `index`, which is an entry with a body. Forgets the body read before,
  /// unless the reader keeps all bodies. Returns false at an error; after an error nothing can be
  /// read.
  bool read(std::size_t index);
  /// Reads all bodies and keeps them from now on.
  bool readAll();
  bool keepsAll() const { return allKept; }

  /// Returns the module with the bodies that the reader keeps. The reader cannot be used
  /// afterwards.
  Module takeModule();
  /// Returns the text unchanged. The reader cannot be used afterwards.
  std::string takeSource();

private:
  void forget();
  bool parse(std::size_t index);

  std::unique_ptr<Parser> parser;
  BumpAllocator statements;    ///< statements of `current`
  Function *current = nullptr; ///< the function whose body is held but not kept
  bool allKept = false;
};

} // namespace tally::ptx

#endif
