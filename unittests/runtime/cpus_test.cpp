// The limits that cgroups set to the CPU time of a process.
#include "base/cpus.h"

#include "../support/files.h"

#include <doctest/doctest.h>

#include <sched.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

using namespace tally;

namespace {

struct Cgroups {
  void write(const std::string &path, const std::string &text) const {
    std::filesystem::path file = std::filesystem::path(root) / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  std::optional<double> limit(std::string_view groups) const {
    return runtime::cpuLimit(groups, root);
  }

  test::TemporaryFolder folder;
  std::string root = folder.file("cgroup");
};

} // namespace

TEST_CASE("version 2: the least limit of the group and of those above it") {
  Cgroups c;
  CHECK_FALSE(c.limit("0::/pods/one\n"));
  c.write("pods/one/cpu.max", "max 100000\n");
  CHECK_FALSE(c.limit("0::/pods/one\n"));
  c.write("pods/cpu.max", "450000 100000\n");
  CHECK(c.limit("0::/pods/one\n") == 4.5);
  c.write("pods/one/cpu.max", "200000 100000\n");
  CHECK(c.limit("0::/pods/one\n") == 2.0);
  CHECK(c.limit("0::/pods\n") == 4.5);
  CHECK_FALSE(c.limit("0::/\n"));
}

TEST_CASE("a container sees its own group as the root") {
  Cgroups c;
  c.write("cpu.max", "150000 100000\n");
  CHECK(c.limit("0::/\n") == 1.5);
  CHECK(c.limit("0::/a/path/of/the/host\n") == 1.5);
}

TEST_CASE("version 1: the group of the controller cpu") {
  Cgroups c;
  const char *groups = "9:memory:/b\n3:cpuset:/a\n2:cpu,cpuacct:/a/b\n0::/\n";
  c.write("cpu,cpuacct/a/b/cpu.cfs_quota_us", "-1\n");
  c.write("cpu,cpuacct/a/b/cpu.cfs_period_us", "100000\n");
  CHECK_FALSE(c.limit(groups));
  c.write("cpu,cpuacct/a/cpu.cfs_quota_us", "300000\n");
  CHECK_FALSE(c.limit(groups)); // without a period
  c.write("cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
  CHECK(c.limit(groups) == 3.0);
  CHECK_FALSE(c.limit("3:cpuset:/a\n"));
}

TEST_CASE("what is no limit is none") {
  Cgroups c;
  for (const char *text : {"", "max", "100000", "0 100000", "1 0", "nonsense 100000"}) {
    CAPTURE(text);
    c.write("cpu.max", text);
    CHECK_FALSE(c.limit("0::/\n"));
  }
  c.write("cpu.max", "200000 100000");
  CHECK_FALSE(c.limit(""));
  CHECK_FALSE(c.limit("nonsense\n0:/\n"));
}

TEST_CASE("at most the CPUs of the calling thread are available") {
  cpu_set_t all;
  REQUIRE(sched_getaffinity(0, sizeof all, &all) == 0);
  unsigned found = runtime::availableCpus();
  CHECK(found >= 1);
  CHECK(found <= static_cast<unsigned>(CPU_COUNT(&all)));
}
