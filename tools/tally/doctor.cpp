#include "doctor.h"

#include "run.h"
#include "watch.h" // of tally-top

namespace tally::launcher {

int doctor(const DoctorOptions &options) {
  Report report;
  examineDriver(report);
  examineEnvironment(report);
  examinePlaces(report);
  if (!options.command.empty())
    examineCommand(report, options.command.front());
  if (!top::writeOut(options.json ? toJson(report.findings()) : toText(report.findings())))
    return fail("standard output cannot be written", exitLauncher);
  return report.isBad() ? 1 : 0;
}

} // namespace tally::launcher
