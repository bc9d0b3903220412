#include "program.h"

#include <array>
#include <sstream>

namespace tally::programs {

namespace {

constexpr std::array kindNames = {
#define TALLY_OPERATION_NAME(name) std::string_view(#name),
    TALLY_OPERATION_KINDS(TALLY_OPERATION_NAME)
#undef TALLY_OPERATION_NAME
};

/// Calls `field(name, value, unset)` for each field, as a long.
template <class Each, class Field> void forEachField(Each &operation, Field field) {
  field("thread", operation.thread, -1);
  field("stream", operation.stream, -1);
  field("to", operation.to, -1);
  field("from", operation.from, -1);
  field("also", operation.also, -1);
  field("event", operation.event, -1);
  field("graph", operation.graph, -1);
  field("token", operation.token, -1);
  field("kernel", operation.kernel, -1);
  field("branch", operation.branch, 0);
  field("node", operation.node, -1);
  field("level", operation.level, 0);
  field("memory", operation.memory, 0);
  field("value", operation.value, 0);
  field("size", operation.size, 0);
  field("rounds", operation.rounds, 0);
}

std::optional<Operation> parseOperation(const std::string &line) {
  std::istringstream words(line);
  std::string word;
  words >> word;
  Operation operation;
  bool known = false;
  for (std::size_t i = 0; i < kindNames.size(); ++i)
    if (word == kindNames[i]) {
      operation.kind = static_cast<OperationKind>(i);
      known = true;
    }
  while (known && words >> word) {
    std::size_t equals = word.find('=');
    bool found = false;
    forEachField(operation, [&](std::string_view name, auto &value, long) {
      if (equals == std::string::npos || word.substr(0, equals) != name)
        return;
      value =
          static_cast<std::remove_reference_t<decltype(value)>>(std::stol(word.substr(equals + 1)));
      found = true;
    });
    known = found;
  }
  return known ? std::optional(operation) : std::nullopt;
}

} // namespace

std::string print(const Operation &operation) {
  std::string text(kindNames[static_cast<std::size_t>(operation.kind)]);
  forEachField(operation, [&](std::string_view name, auto value, long unset) {
    if (static_cast<long>(value) != unset)
      text.append(" ").append(name).append("=").append(std::to_string(static_cast<long>(value)));
  });
  return text;
}

std::string print(const Program &program) {
  std::string text = "threads " + std::to_string(program.threads) + "\nevents " +
                     std::to_string(program.events) + "\n";
  for (const Operation &each : program.operations)
    text += print(each) + "\n";
  return text;
}

std::optional<Program> parse(std::string_view text) {
  std::istringstream lines{std::string(text)};
  Program program;
  std::string word;
  if (!(lines >> word >> program.threads) || word != "threads" || program.threads < 1 ||
      program.threads > maxThreads || !(lines >> word >> program.events) || word != "events")
    return std::nullopt;
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line)) {
    auto operation = parseOperation(line);
    if (!operation)
      return std::nullopt;
    program.operations.push_back(*operation);
  }
  return program;
}

} // namespace tally::programs
