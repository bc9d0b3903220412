// `tally doctor`: what Tally needs on this machine, and what there is.
#ifndef TALLY_LAUNCHER_DOCTOR_H
#define TALLY_LAUNCHER_DOCTOR_H

#include "command_line.h"
#include "report.h"

namespace tally::launcher {

/// Writes the report to standard output. The exit status: 1 where something is bad.
int doctor(const DoctorOptions &options);

/// The parts of the report.
void examineDriver(Report &report);      ///< driver, devices, device files
void examineEnvironment(Report &report); ///< settings, variables of CUDA and of the loader, MPS
void examinePlaces(Report &report);      ///< arena, library, tools, cache
void examineCommand(Report &report, const std::string &word);

} // namespace tally::launcher

#endif
