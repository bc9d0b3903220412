// The findings of `tally doctor`, as text and as JSON.
#ifndef TALLY_LAUNCHER_REPORT_H
#define TALLY_LAUNCHER_REPORT_H

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tally::launcher {

enum class Verdict : std::uint8_t {
  Ok,
  Note, ///< works, but may surprise or cost
  Bad   ///< does not work
};

struct Finding {
  Verdict verdict = Verdict::Ok;
  std::string thing; ///< the thing examined
  std::string what;  ///< the observation
  std::string mend;  ///< the remedy; empty where the thing is ok
};

class Report {
public:
  void ok(const std::string &thing, const std::string &what) { add(Verdict::Ok, thing, what, ""); }
  void note(const std::string &thing, const std::string &what, const std::string &mend) {
    add(Verdict::Note, thing, what, mend);
  }
  void bad(const std::string &thing, const std::string &what, const std::string &mend) {
    add(Verdict::Bad, thing, what, mend);
  }
  std::span<const Finding> findings() const { return all; }
  bool isBad() const;

private:
  void add(Verdict verdict, const std::string &thing, const std::string &what,
           const std::string &mend) {
    all.push_back({verdict, thing, what, mend});
  }
  std::vector<Finding> all;
};

/// Returns a line for each finding, with the remedy on a line below it.
std::string toText(std::span<const Finding> findings);
/// Returns one line: {"bad":COUNT,"findings":[{"verdict":…,"thing":…,"what":…,"mend":…},…]}.
std::string toJson(std::span<const Finding> findings);

} // namespace tally::launcher

#endif
