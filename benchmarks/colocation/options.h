// Options of the form --KEY=VALUE, and the form in which the programs print their figures.
#ifndef TALLY_BENCHMARKS_COLOCATION_OPTIONS_H
#define TALLY_BENCHMARKS_COLOCATION_OPTIONS_H

#include <cstdio>
#include <cstdlib>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace colocation {

struct Options {
  std::map<std::string, std::string> values;
  const std::string &text(const char *key) const { return values.at(key); }
  double number(const char *key) const { return std::stod(values.at(key)); }
  unsigned count(const char *key) const { return static_cast<unsigned>(number(key)); }
  /// The parts of a value that is a comma-separated list.
  std::vector<std::string> list(const char *key) const {
    std::vector<std::string> parts;
    std::stringstream stream(text(key));
    for (std::string part; std::getline(stream, part, ',');)
      parts.push_back(part);
    return parts;
  }
};

/// `options` holds the known options with their defaults. Ends the program at an unknown option.
inline Options parse(int argc, char **argv, Options options) {
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    std::size_t equals = argument.find('=');
    std::string key = argument.substr(0, 2) == "--" && equals != std::string::npos
                          ? argument.substr(2, equals - 2)
                          : std::string();
    if (options.values.find(key) == options.values.end()) {
      std::fprintf(stderr, "colocation: %s is no option; there are:\n", argv[i]);
      for (const auto &[name, value] : options.values)
        std::fprintf(stderr, "  --%s=%s\n", name.c_str(), value.c_str());
      std::exit(2);
    }
    options.values[key] = argument.substr(equals + 1);
  }
  return options;
}

inline void print(const char *name, const std::vector<double> &values) {
  std::printf(", \"%s\": [", name);
  for (std::size_t i = 0; i < values.size(); ++i)
    std::printf("%s%.2f", i == 0 ? "" : ", ", values[i]);
  std::printf("]");
}

} // namespace colocation

#endif
