// `tally doctor`: reports the requirements of Tally and whether this machine meets them.
#ifndef TALLY_LAUNCHER_DOCTOR_H
#define TALLY_LAUNCHER_DOCTOR_H

#include "command_line.h"
#include "report.h"

namespace tally::launcher {

/// Writes the report to standard output. Returns the exit status: 1 where a finding is bad.
int doctor(const DoctorOptions &options);

/// The parts of the report.
void examineDriver(Report &report);      ///< driver, devices, device files
void examineEnvironment(Report &report); ///< settings, variables of CUDA and of the loader, MPS
void examinePlaces(Report &report);      ///< arena, library, tools, cache
void examineCommand(Report &report, const std::string &word);

} // namespace tally::launcher

#endif
