// Pieces of JSON.
#ifndef TALLY_TOP_JSON_TEXT_H
#define TALLY_TOP_JSON_TEXT_H

#include <cstdint>
#include <string>

namespace tally::top {

/// Returns a string with its quotation marks. Bytes outside of ASCII are escaped one by one.
std::string quoted(const std::string &text);
std::string number(double value);

class Object {
public:
  Object &add(const char *name, const std::string &value) {
    text += std::string(text.size() > 1 ? "," : "") + "\"" + name + "\":" + value;
    return *this;
  }
  Object &count(const char *name, std::uint64_t value) { return add(name, std::to_string(value)); }
  Object &rate(const char *name, double value) { return add(name, number(value)); }
  std::string close() const { return text + "}"; }

private:
  std::string text = "{";
};

/// Returns an array with `each` applied to the items.
template <class Items, class Each> std::string array(const Items &items, const Each &each) {
  std::string text = "[";
  for (const auto &item : items) {
    if (text.size() > 1)
      text += ',';
    text += each(item);
  }
  text += ']';
  return text;
}

} // namespace tally::top

#endif
