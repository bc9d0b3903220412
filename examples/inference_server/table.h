// Prints the results of a measurement.
#ifndef INFERENCE_SERVER_TABLE_H
#define INFERENCE_SERVER_TABLE_H

#include "measurement.h"

#include <string>

namespace inference_server {

/// The table, whether its figures are meaningful, and the verdict on the results.
std::string report(const Options &options, const Measurement &measurement);

/// Returns a line for each mode and repetition, with a heading.
std::string csv(const Measurement &measurement);

/// Whether everything computed was right.
bool allRight(const Measurement &measurement);

} // namespace inference_server

#endif
