// tally: starts programs that share a GPU, shows them, and reports missing requirements and
// possible improvements.
#include "advise.h"
#include "command_line.h"
#include "doctor.h"
#include "run.h"
#include "watch.h" // of tally-top

using namespace tally;

namespace {

struct Perform {
  int operator()(const launcher::Text &text) const {
    return top::writeOut(text.text) ? 0 : launcher::exitLauncher;
  }
  int operator()(const launcher::RunOptions &options) const { return launcher::run(options); }
  int operator()(const top::Options &options) const {
    Result<void> done = top::watch(options);
    return done ? 0 : launcher::fail(done.error().message, 1);
  }
  int operator()(const launcher::DoctorOptions &options) const { return launcher::doctor(options); }
  int operator()(const launcher::AdviseOptions &options) const { return launcher::advise(options); }
};

} // namespace

int main(int count, char **arguments) {
  std::vector<std::string_view> words(arguments + std::min(count, 1), arguments + count);
  Result<launcher::Request> request = launcher::parseCommandLine(words);
  if (!request)
    return launcher::fail(request.error().message, launcher::exitLauncher);
  return std::visit(Perform(), *request);
}
