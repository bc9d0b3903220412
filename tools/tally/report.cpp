#include "report.h"

#include "json_text.h" // of tally-top

#include <algorithm>

namespace tally::launcher {

namespace {

const char *wordOf(Verdict verdict) {
  switch (verdict) {
  case Verdict::Ok:
    return "ok";
  case Verdict::Note:
    return "note";
  case Verdict::Bad:
    return "bad";
  }
  return "";
}

bool isBadFinding(const Finding &finding) { return finding.verdict == Verdict::Bad; }

/// Returns `text` on one line, since file names may hold control characters.
std::string onOneLine(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  return text;
}

} // namespace

bool Report::isBad() const { return std::any_of(all.begin(), all.end(), isBadFinding); }

std::string toText(std::span<const Finding> findings) {
  std::string text;
  for (const Finding &finding : findings) {
    std::string word = wordOf(finding.verdict);
    text += word + std::string(6 - word.size(), ' ') +
            onOneLine(finding.thing + ": " + finding.what) + "\n";
    if (!finding.mend.empty())
      text += "      -> " + onOneLine(finding.mend) + "\n";
  }
  return text;
}

std::string toJson(std::span<const Finding> findings) {
  auto one = [](const Finding &finding) {
    return top::Object()
        .add("verdict", top::quoted(wordOf(finding.verdict)))
        .add("thing", top::quoted(finding.thing))
        .add("what", top::quoted(finding.what))
        .add("mend", top::quoted(finding.mend))
        .close();
  };
  auto bad = std::count_if(findings.begin(), findings.end(), isBadFinding);
  return top::Object()
             .count("bad", static_cast<std::uint64_t>(bad))
             .add("findings", top::array(findings, one))
             .close() +
         "\n";
}

} // namespace tally::launcher
