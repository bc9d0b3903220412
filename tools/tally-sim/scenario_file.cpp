#include "scenario_file.h"

#include <llvm/Support/JSON.h>
#include <llvm/Support/MemoryBuffer.h>

#include <set>
#include <utility>

namespace tally::sim {

namespace {

using Object = llvm::json::Object;

/// Reads an object's members. Keeps the first error; members that nobody reads are errors too.
class Members {
public:
  Members(const Object &object, std::string name, std::optional<Error> &error)
      : object(object), name(std::move(name)), error(error) {}
  ~Members() {
    for (const auto &[key, value] : object)
      if (!known.contains(key.str()))
        fail(key.str(), "is no member here");
  }
  Members(const Members &) = delete;
  Members &operator=(const Members &) = delete;

  bool has(const char *member) const { return object.get(member) != nullptr; }
  void fail(const std::string &member, const std::string &why) {
    if (!error)
      error = Error{name + "." + member + " " + why};
  }
  const llvm::json::Value *find(const char *member) {
    known.insert(member);
    return object.get(member);
  }
  /// A number from `least` to `most`; leaves `to` as it is where there is none.
  void number(const char *member, double &to, double least, double most) {
    const llvm::json::Value *value = find(member);
    if (!value)
      return;
    std::optional<double> found = value->getAsNumber();
    if (!found || *found < least || *found > most)
      return fail(member, "has to be a number from " + text(least) + " to " + text(most));
    to = *found;
  }
  void time(const char *member, Nanoseconds &to, double least = 0) {
    double value = static_cast<double>(to.count()) / 1000;
    number(member, value, least, mostMicroseconds);
    to = fromMicroseconds(value);
  }
  void flag(const char *member, bool &to) {
    if (const llvm::json::Value *value = find(member)) {
      if (std::optional<bool> found = value->getAsBoolean())
        to = *found;
      else
        fail(member, "has to be true or false");
    }
  }
  void string(const char *member, std::string &to) {
    if (const llvm::json::Value *value = find(member)) {
      if (auto found = value->getAsString())
        to = found->str();
      else
        fail(member, "has to be a text");
    }
  }
  /// A number of microseconds, or a list of them.
  void times(const char *member, std::vector<Nanoseconds> &to, double least) {
    for (double each : list(member, least, mostMicroseconds,
                            "has to hold numbers of microseconds from " + text(least) + " on"))
      to.push_back(fromMicroseconds(each));
  }
  /// A number, or a list of at least one; leaves `to` as it is where there is none.
  void numbers(const char *member, std::vector<double> &to, double least, double most) {
    std::vector<double> found =
        list(member, least, most, "has to hold numbers from " + text(least) + " to " + text(most));
    if (!found.empty())
      to = std::move(found);
    else if (has(member))
      fail(member, "has to hold a number");
  }

private:
  /// The numbers from `least` to `most` of a member that is a number or a list; `wrong` says what
  /// another value has to be.
  std::vector<double> list(const char *member, double least, double most,
                           const std::string &wrong) {
    std::vector<double> numbers;
    const llvm::json::Value *value = find(member);
    if (!value)
      return numbers;
    auto add = [&](const llvm::json::Value &each) {
      std::optional<double> found = each.getAsNumber();
      if (!found || *found < least || *found > most)
        return fail(member, wrong);
      numbers.push_back(*found);
    };
    if (const llvm::json::Array *several = value->getAsArray())
      for (const llvm::json::Value &each : *several)
        add(each);
    else
      add(*value);
    return numbers;
  }
  static constexpr double mostMicroseconds = 1e12;
  static std::string text(double value) {
    std::string made = std::to_string(value);
    made.erase(made.find_last_not_of('0') + 1);
    if (made.back() == '.')
      made.pop_back();
    return made;
  }

  const Object &object;
  std::string name;
  std::optional<Error> &error;
  std::set<std::string> known;
};

void readRequests(const Object &object, Requests &to, std::optional<Error> &error) {
  Members members(object, "requests", error);
  members.times("service_us", to.services, 0.001);
  members.times("arrivals_us", to.arrivals, 0);
  members.number("load", to.load, 0, 0.99);
  if (Nanoseconds think{0}; members.has("think_us")) {
    members.time("think_us", think);
    to.think = think;
  }
  members.flag("merged", to.merged);
  members.numbers("fills", to.fills, 0, 1);
  members.numbers("slowdown", to.slowdown, 0, 100);
  auto seed = static_cast<double>(to.seed);
  members.number("seed", seed, 0, 1e15);
  to.seed = static_cast<std::uint64_t>(seed);
  if (to.services.empty())
    members.fail("service_us", "is missing");
}

void readKernel(const Object &object, std::size_t number, std::vector<TrainingKernel> &to,
                std::optional<Error> &error) {
  Members members(object, "training.kernels[" + std::to_string(number) + "]", error);
  TrainingKernel kernel;
  members.string("name", kernel.name);
  members.time("us", kernel.duration, 0.001);
  members.time("block_us", kernel.block);
  members.time("host_us", kernel.host);
  members.flag("variants", kernel.hasVariants);
  double times = 1;
  members.number("times", times, 1, 1e6);
  if (kernel.duration.count() == 0)
    members.fail("us", "is missing");
  to.insert(to.end(), static_cast<std::size_t>(times), kernel);
}

void readTraining(const Object &object, Scenario &to, std::optional<Error> &error) {
  Members members(object, "training", error);
  members.time("step_us", to.step);
  double ahead = to.stepsAhead;
  members.number("steps_ahead", ahead, 1, 1000);
  to.stepsAhead = static_cast<std::uint32_t>(ahead);
  const llvm::json::Value *kernels = members.find("kernels");
  if (const llvm::json::Array *list = kernels ? kernels->getAsArray() : nullptr) {
    for (std::size_t i = 0; i < list->size(); ++i)
      if (const Object *kernel = (*list)[i].getAsObject())
        readKernel(*kernel, i, to.training, error);
      else
        members.fail("kernels", "has to be a list of objects");
  }
  if (to.training.empty())
    return members.fail("kernels", "has to be a list with at least one kernel");
  if (to.step.count() == 0) {
    Nanoseconds host{0};
    for (const TrainingKernel &kernel : to.training) {
      to.step += kernel.duration;
      host += kernel.host;
    }
    to.step = std::max(to.step, host);
  }
}

void readCosts(const Object &object, Costs &to, std::optional<Error> &error) {
  Members members(object, "costs", error);
  members.time("launch_us", to.launch);
  members.time("call_us", to.call);
  members.time("write_us", to.write);
  members.time("marker_us", to.marker);
  members.time("begin_us", to.begin);
  members.time("look_us", to.look, 0.01);
}

} // namespace

Result<Scenario> parseScenario(std::string_view text) {
  llvm::Expected<llvm::json::Value> parsed = llvm::json::parse(llvm::StringRef(text));
  if (!parsed)
    return Error{llvm::toString(parsed.takeError())};
  const Object *object = parsed->getAsObject();
  if (!object)
    return Error{"the scenario has to be an object"};
  Scenario scenario;
  std::optional<Error> error;
  {
    Members members(*object, "scenario", error);
    double sms = scenario.smCount, seconds = 10;
    members.number("sms", sms, 1, 10000);
    members.number("seconds", seconds, 0.001, 1e6);
    members.flag("green_contexts", scenario.greenContexts);
    members.string("policy", scenario.policy);
    members.time("bound_us", scenario.bound, 1);
    scenario.smCount = static_cast<std::uint32_t>(sms);
    scenario.length = fromMicroseconds(seconds * 1e6);
    auto part = [&](const char *name, bool isNeeded, auto read) {
      const llvm::json::Value *value = members.find(name);
      if (const Object *found = value ? value->getAsObject() : nullptr)
        read(*found);
      else if (value || isNeeded)
        members.fail(name, "has to be an object");
    };
    part("requests", true,
         [&](const Object &each) { readRequests(each, scenario.requests, error); });
    part("training", true, [&](const Object &each) { readTraining(each, scenario, error); });
    part("costs", false, [&](const Object &each) { readCosts(each, scenario.costs, error); });
  }
  if (error)
    return *error;
  return scenario;
}

Result<Scenario> readScenario(const std::string &path) {
  auto file = llvm::MemoryBuffer::getFile(path);
  if (!file)
    return Error{path + ": " + file.getError().message()};
  Result<Scenario> scenario = parseScenario({(*file)->getBufferStart(), (*file)->getBufferSize()});
  return scenario ? std::move(scenario)
                  : Result<Scenario>(Error{path + ": " + scenario.error().message});
}

} // namespace tally::sim
