#include "json_text.h"

#include <cstdio>

namespace tally::top {

std::string quoted(const std::string &text) {
  std::string result = "\"";
  for (char c : text) {
    auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte > 0x7e) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", byte);
      result += escape;
    } else {
      if (c == '"' || c == '\\')
        result += '\\';
      result += c;
    }
  }
  return result + "\"";
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

} // namespace tally::top
