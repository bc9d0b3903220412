// The functions that an older C library lacks, tested without the C library's own ones.
#include "../../lib/older_glibc/newer_functions.cpp" // NOLINT(bugprone-suspicious-include)

#include <doctest/doctest.h>

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>

using namespace std::chrono_literals;

namespace {

/// Acts as with a C library that has none of these functions.
struct Older {
  Older() {
    realWaitUntil = nullptr;
#if __GLIBC_PREREQ(2, 35)
    realFindObject = nullptr;
#endif
  }
  ~Older() { findFunctions(); }
};

int parsed(const char *text) {
  try {
    return std::stoi(text); // throws from the C++ library
  } catch (const std::invalid_argument &) {
    return -1;
  }
}

} // namespace

TEST_CASE("exceptions are caught with and without the C library's look for an object") {
  CHECK(parsed("12") == 12);
  CHECK(parsed("twelve") == -1);
  Older older;
  CHECK(parsed("twelve") == -1);
  std::thread([] { CHECK(parsed("twelve") == -1); }).join();
}

#if __GLIBC_PREREQ(2, 35)
TEST_CASE("an address is found in the object that the C library finds") {
  REQUIRE(static_cast<bool>(realFindObject));
  auto find = realFindObject;
  int local = 0;
  void *inLibrary = dlsym(RTLD_DEFAULT, "getenv");
  REQUIRE(inLibrary != nullptr);
  Older older;
  for (void *address :
       {reinterpret_cast<void *>(&parsed), inLibrary, static_cast<void *>(&local)}) {
    dl_find_object expected = {}, found = {};
    int status = find(address, &expected);
    CHECK(_dl_find_object(address, &found) == status);
    if (status == 0)
      CHECK(found.dlfo_eh_frame == expected.dlfo_eh_frame);
  }
}
#endif

TEST_CASE("a wait by the steady clock ends at its time, or when it is woken") {
  Older older;
  std::mutex mutex;
  std::condition_variable condition;
  std::unique_lock lock(mutex);
  auto start = std::chrono::steady_clock::now();
  CHECK_FALSE(condition.wait_for(lock, 30ms, [] { return false; }));
  CHECK(std::chrono::steady_clock::now() - start >= 30ms);
  CHECK(condition.wait_until(lock, start) == std::cv_status::timeout);

  bool woken = false;
  std::thread waker([&] {
    std::lock_guard inner(mutex);
    woken = true;
    condition.notify_all();
  });
  CHECK(condition.wait_for(lock, 60s, [&] { return woken; }));
  lock.unlock();
  waker.join();
}

TEST_CASE("a wait is one wait, and refuses what the C library's refuses") {
  Older older;
  pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&mutex);
  timespec until = moved(now(CLOCK_MONOTONIC), {}, {0, second / 50});
  CHECK(pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, &until) == ETIMEDOUT);
  CHECK_FALSE(isBefore(now(CLOCK_MONOTONIC), until));
  until = {1, second};
  CHECK(pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, &until) == EINVAL);
  until.tv_nsec = 0;
  CHECK(pthread_cond_clockwait(&condition, &mutex, CLOCK_PROCESS_CPUTIME_ID, &until) == EINVAL);
  CHECK(pthread_cond_clockwait(&condition, &mutex, CLOCK_REALTIME, &until) == ETIMEDOUT);
  CHECK(pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, &until) == ETIMEDOUT);
  pthread_mutex_unlock(&mutex);
}

TEST_CASE("times are moved across whole seconds") {
  auto check = [](timespec result, long seconds, long nanoseconds) {
    CHECK(result.tv_sec == seconds);
    CHECK(result.tv_nsec == nanoseconds);
  };
  check(moved({5, 500}, {3, 100}, {10, 200}), 12, 600);
  check(moved({5, 100}, {3, 200}, {10, 0}), 11, second - 100);
  check(moved({5, second - 1}, {3, 0}, {10, second - 1}), 13, second - 2);
  check(moved({5, 0}, {3, second - 1}, {3, 0}), 4, 1);
}

TEST_CASE("files have the status that the kernel gives for extended status") {
  std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("tally-status-" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  std::filesystem::path link = folder / "link";
  std::filesystem::create_symlink("/proc/self/exe", link);
  struct statx expected = {};
  struct stat found = {};
  REQUIRE(statx(AT_FDCWD, link.c_str(), 0, STATX_BASIC_STATS, &expected) == 0);
  REQUIRE(stat(link.c_str(), &found) == 0);
  CHECK(found.st_ino == expected.stx_ino);
  CHECK(found.st_size == static_cast<off_t>(expected.stx_size));
  CHECK(found.st_mode == expected.stx_mode);
  CHECK(found.st_mtim.tv_sec == expected.stx_mtime.tv_sec);
  struct stat64 large = {};
  CHECK(stat64(link.c_str(), &large) == 0);
  CHECK(large.st_size == found.st_size);

  REQUIRE(lstat(link.c_str(), &found) == 0);
  CHECK(S_ISLNK(found.st_mode));
  CHECK(lstat64(link.c_str(), &large) == 0);
  CHECK(S_ISLNK(large.st_mode));

  int file = open(link.c_str(), O_RDONLY | O_CLOEXEC);
  REQUIRE(fstat(file, &found) == 0);
  CHECK(found.st_ino == expected.stx_ino);
  CHECK(fstat64(file, &large) == 0);
  CHECK(large.st_ino == expected.stx_ino);
  close(file);
  CHECK(fstat(-1, &found) == -1);
  CHECK(errno == EBADF);
  CHECK(stat((folder / "none").c_str(), &found) == -1);
  CHECK(errno == ENOENT);
  std::filesystem::remove_all(folder);
}
