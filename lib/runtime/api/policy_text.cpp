#include "tally/runtime/policy_text.h"

#include "tally/policy/partition_policy.h"
#include "tally/policy/rate_policy.h"
#include "tally/policy/share_policy.h"
#include "tally/policy/slo_policy.h"

#include <charconv>
#include <cmath>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tally::runtime {

namespace {

constexpr double longestMicroseconds = 1e9;

std::string text(double number) {
  std::string digits = std::to_string(number);
  digits.erase(digits.find_last_not_of('0') + 1);
  if (digits.back() == '.')
    digits.pop_back();
  return digits;
}

/// A key of a policy, and its range.
struct Key {
  std::string_view name;
  double least, most;
  bool isList = false; ///< values with '/' between them
};

std::optional<double> parse(std::string_view digits) {
  double value = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  bool whole = error == std::errc() && end == digits.data() + digits.size();
  return whole && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

/// The values given for a policy's keys.
class Given {
public:
  static Result<Given> read(std::string_view policy, std::string_view text,
                            const std::vector<Key> &keys);

  double number(std::string_view key, double otherwise) const {
    auto known = values.find(key);
    return known == values.end() ? otherwise : known->second.front();
  }
  std::chrono::nanoseconds microseconds(std::string_view key,
                                        std::chrono::nanoseconds otherwise) const {
    auto nanoseconds = static_cast<double>(otherwise.count());
    return std::chrono::nanoseconds(std::llround(number(key, nanoseconds / 1000) * 1000));
  }
  std::vector<double> list(std::string_view key) const {
    auto known = values.find(key);
    return known == values.end() ? std::vector<double>() : known->second;
  }

private:
  Result<void> take(const Key &key, std::string_view value);
  std::map<std::string, std::vector<double>, std::less<>> values;
};

Result<void> Given::take(const Key &key, std::string_view value) {
  std::vector<double> numbers;
  for (std::string_view rest = value;;) {
    std::size_t cut = key.isList ? rest.find('/') : std::string_view::npos;
    std::optional<double> number = parse(rest.substr(0, cut));
    if (!number || *number < key.least || *number > key.most)
      return Error{std::string(key.name) + "=" + std::string(value) + " is no number from " +
                   text(key.least) + " to " + text(key.most) +
                   (key.isList ? ", or several with '/' between them" : "")};
    numbers.push_back(*number);
    if (cut == std::string_view::npos)
      break;
    rest.remove_prefix(cut + 1);
  }
  if (numbers.size() > maxPolicyClients)
    return Error{std::string(key.name) + " has more than " + std::to_string(maxPolicyClients) +
                 " values"};
  if (!values.emplace(key.name, std::move(numbers)).second)
    return Error{std::string(key.name) + " is given twice"};
  return {};
}

Result<Given> Given::read(std::string_view policy, std::string_view text,
                          const std::vector<Key> &keys) {
  Given given;
  for (std::string_view rest = text; !rest.empty();) {
    std::size_t cut = rest.find(',');
    std::string_view pair = rest.substr(0, cut);
    rest = cut == std::string_view::npos ? std::string_view() : rest.substr(cut + 1);
    std::size_t equals = pair.find('=');
    const Key *known = nullptr;
    std::string allowed;
    for (const Key &key : keys) {
      if (equals != std::string_view::npos && pair.substr(0, equals) == key.name)
        known = &key;
      allowed += (allowed.empty() ? "" : ", ") + std::string(key.name) + "=";
    }
    if (!known)
      return Error{"policy '" + std::string(policy) + "' does not take '" + std::string(pair) +
                   "'; it takes " + allowed};
    if (Result<void> taken = given.take(*known, pair.substr(equals + 1)); !taken)
      return Error{"policy '" + std::string(policy) + "': " + taken.error().message};
  }
  return given;
}

Result<AnyPolicy> makePriority(const Given &given) {
  PriorityPolicy policy;
  policy.hysteresis = given.microseconds("hysteresis-us", policy.hysteresis);
  policy.idleBeforeUnknown = given.microseconds("idle-before-unknown-us", policy.idleBeforeUnknown);
  policy.patience = given.microseconds("patience-us", policy.patience);
  return AnyPolicy(policy);
}

Result<AnyPolicy> makeSlo(const Given &given) {
  SloPolicy policy;
  policy.target = given.microseconds("target-us", policy.target);
  policy.factor = given.number("factor", policy.factor);
  policy.lightShare = given.number("light-share", policy.lightShare);
  policy.least = given.microseconds("least-us", policy.least);
  policy.patience = given.microseconds("patience-us", policy.patience);
  policy.floor = given.number("floor", policy.floor);
  policy.beside.most = given.number("most", policy.beside.most);
  policy.queues = given.number("queues", policy.queues ? 1 : 0) >= 0.5;
  return AnyPolicy(policy);
}

/// Reads the settings of an AdditiveControl.
Result<void> readControl(const Given &given, AdditiveControl &control) {
  control.least = given.number("least", control.least);
  control.most = given.number("most", std::max(control.most, control.least));
  control.tolerance = given.number("tolerance", control.tolerance);
  control.interval = given.microseconds("interval-us", control.interval);
  control.value = control.least;
  if (control.least > control.most)
    return Error{"least=" + text(control.least) + " is above most=" + text(control.most)};
  return {};
}

Result<AnyPolicy> makePartition(const Given &given) {
  PartitionPolicy policy;
  if (Result<void> read = readControl(given, policy.share); !read)
    return Error{"policy 'partition': " + read.error().message};
  policy.light = given.microseconds("light-us", policy.light);
  return AnyPolicy(policy);
}

Result<AnyPolicy> makeRate(const Given &given) {
  RatePolicy policy;
  if (Result<void> read = readControl(given, policy.rate); !read)
    return Error{"policy 'rate': " + read.error().message};
  policy.burst = given.microseconds("burst-us", policy.burst);
  return AnyPolicy(policy);
}

Result<AnyPolicy> makeShare(const Given &given) {
  SharePolicy policy;
  std::vector<double> weights = given.list("weights");
  std::copy(weights.begin(), weights.end(), policy.weights.begin());
  policy.quantum = given.microseconds("quantum-us", policy.quantum);
  policy.priority.hysteresis = given.microseconds("hysteresis-us", policy.priority.hysteresis);
  return AnyPolicy(policy);
}

constexpr Key microseconds(std::string_view name) { return {name, 0, longestMicroseconds}; }

struct Row {
  std::string_view name;
  std::vector<Key> keys;
  Result<AnyPolicy> (*make)(const Given &);
};

const std::vector<Row> &rows() {
  static const std::vector<Key> steered = {
      {"least", 0, 1}, {"most", 0, 1}, {"tolerance", 1, 100}, microseconds("interval-us")};
  auto steeredAnd = [](Key more) {
    std::vector<Key> keys = steered;
    keys.push_back(more);
    return keys;
  };
  static const std::vector<Row> table = {
      {"priority",
       {microseconds("hysteresis-us"), microseconds("idle-before-unknown-us"),
        microseconds("patience-us")},
       makePriority},
      {"slo",
       {microseconds("target-us"),
        {"factor", 1, 1000},
        {"light-share", 0, 1},
        microseconds("least-us"),
        microseconds("patience-us"),
        {"queues", 0, 1},
        {"floor", 0, 1},
        {"most", 0, 1}},
       makeSlo},
      {"partition", steeredAnd(microseconds("light-us")), makePartition},
      {"rate", steeredAnd(microseconds("burst-us")), makeRate},
      {"share",
       {{"weights", 0.001, 1000, true}, microseconds("quantum-us"), microseconds("hysteresis-us")},
       makeShare},
  };
  return table;
}

} // namespace

Result<AnyPolicy> policyFromText(std::string_view text) {
  if (text.empty())
    return AnyPolicy();
  std::size_t colon = text.find(':');
  std::string_view name = text.substr(0, colon);
  std::string allowed;
  for (const Row &row : rows()) {
    if (row.name == name) {
      std::string_view rest = colon == std::string_view::npos ? "" : text.substr(colon + 1);
      Result<Given> given = Given::read(name, rest, row.keys);
      return given ? row.make(*given) : Result<AnyPolicy>(given.error());
    }
    allowed += (allowed.empty() ? "" : ", ") + std::string(row.name);
  }
  return Error{"unknown policy '" + std::string(name) + "'; there are " + allowed};
}

} // namespace tally::runtime
