// Functions of C libraries newer than the oldest one that the preloaded library and the programs
// run with (CMakeLists.txt), for their objects, including objects from the compiler's archives.
// They are hidden: no other object uses them in place of the C library's.
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>

#define TALLY_HIDDEN __attribute__((visibility("hidden")))

namespace {

/// The C library's own function; nullptr where it has none. The C library's function is the better
/// one.
template <typename Function> Function *find(const char *name) {
  return reinterpret_cast<Function *>(dlsym(RTLD_DEFAULT, name));
}

using WaitUntil = int(pthread_cond_t *, pthread_mutex_t *, clockid_t, const timespec *);
WaitUntil *realWaitUntil = nullptr;

constexpr long second = 1'000'000'000; // in nanoseconds

timespec now(clockid_t clock) {
  timespec time = {};
  clock_gettime(clock, &time);
  return time;
}

/// Returns `time`, moved later by `to` - `from`.
timespec moved(timespec time, timespec from, timespec to) {
  long nanoseconds = time.tv_nsec + to.tv_nsec - from.tv_nsec; // from -1 s to 2 s
  long carry = nanoseconds < 0 ? -1 : nanoseconds / second;
  return {time.tv_sec + to.tv_sec - from.tv_sec + carry, nanoseconds - carry * second};
}

bool isBefore(timespec left, timespec right) {
  return left.tv_sec != right.tv_sec ? left.tv_sec < right.tv_sec : left.tv_nsec < right.tv_nsec;
}

} // namespace

extern "C" {

// The C library has this variable since 2.32. Where the variable is not 0, the C++ library leaves
// atomic operations out.
extern TALLY_HIDDEN char __libc_single_threaded;
char __libc_single_threaded = 0;

/// The C library has this function since 2.30. With an older C library this function waits as the
/// C++ library did then: by the real-time clock, which the condition uses. When that clock is set,
/// the wait ends earlier (a spurious wake-up for the caller) or later.
TALLY_HIDDEN int pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                        clockid_t clock, const timespec *until) {
  if (realWaitUntil)
    return realWaitUntil(condition, mutex, clock, until);
  if (clock == CLOCK_REALTIME)
    return pthread_cond_timedwait(condition, mutex, until);
  if (clock != CLOCK_MONOTONIC || until->tv_nsec < 0 || until->tv_nsec >= second)
    return EINVAL;
  timespec end = moved(now(CLOCK_REALTIME), now(clock), *until);
  int result = pthread_cond_timedwait(condition, mutex, &end);
  return result == ETIMEDOUT && isBefore(now(clock), *until) ? 0 : result;
}

#if __GLIBC_PREREQ(2, 33)
// Headers of older C libraries led these calls to functions of other names. On 64-bit machines the
// kernel's structure is the C library's, with and without 64 in its name.
TALLY_HIDDEN int stat(const char *path, struct stat *status) noexcept {
  return static_cast<int>(syscall(SYS_newfstatat, AT_FDCWD, path, status, 0));
}
TALLY_HIDDEN int lstat(const char *path, struct stat *status) noexcept {
  return static_cast<int>(syscall(SYS_newfstatat, AT_FDCWD, path, status, AT_SYMLINK_NOFOLLOW));
}
TALLY_HIDDEN int fstat(int file, struct stat *status) noexcept {
  return static_cast<int>(syscall(SYS_fstat, file, status));
}
TALLY_HIDDEN int stat64(const char *path, struct stat64 *status) noexcept {
  return static_cast<int>(syscall(SYS_newfstatat, AT_FDCWD, path, status, 0));
}
TALLY_HIDDEN int lstat64(const char *path, struct stat64 *status) noexcept {
  return static_cast<int>(syscall(SYS_newfstatat, AT_FDCWD, path, status, AT_SYMLINK_NOFOLLOW));
}
TALLY_HIDDEN int fstat64(int file, struct stat64 *status) noexcept {
  return static_cast<int>(syscall(SYS_fstat, file, status));
}
TALLY_HIDDEN struct mallinfo2 mallinfo2() noexcept { // Its numbers have more bits.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  struct mallinfo known = mallinfo();
#pragma GCC diagnostic pop
  auto wide = [](int number) { return static_cast<size_t>(static_cast<unsigned>(number)); };
  return {wide(known.arena),    wide(known.ordblks), wide(known.smblks),  wide(known.hblks),
          wide(known.hblkhd),   wide(known.usmblks), wide(known.fsmblks), wide(known.uordblks),
          wide(known.fordblks), wide(known.keepcost)};
}
#endif

#if __GLIBC_PREREQ(2, 36)
TALLY_HIDDEN uint32_t arc4random() noexcept {
  uint32_t number = 0;
  while (getrandom(&number, sizeof number, 0) != sizeof number) {
  }
  return number;
}
#endif
}

// Where gcc's unwinder was built with a C library that has this function (2.35), it gets the frames
// of an address only from it. Without an answer no exception is caught.
#if __GLIBC_PREREQ(2, 35)
namespace {

using FindObject = int(void *, dl_find_object *);
FindObject *realFindObject = nullptr;

struct Search {
  uintptr_t address;
  dl_find_object *result;
};

/// Returns 1 where the loaded object holds the address, and fills `result`; else 0.
int looksAt(dl_phdr_info *object, size_t, void *argument) {
  auto [address, result] = *static_cast<Search *>(argument);
  bool isIn = false;
  void *frames = nullptr;
  for (const ElfW(Phdr) *header = object->dlpi_phdr;
       header != object->dlpi_phdr + object->dlpi_phnum; ++header) {
    uintptr_t start = object->dlpi_addr + header->p_vaddr;
    auto *begin = reinterpret_cast<char *>(start);
    if (header->p_type == PT_LOAD && address - start < header->p_memsz) {
      isIn = true;
      result->dlfo_map_start = begin;
      result->dlfo_map_end = begin + header->p_memsz;
    } else if (header->p_type == PT_GNU_EH_FRAME) {
      frames = begin;
    }
  }
  result->dlfo_eh_frame = frames;
  return isIn ? 1 : 0;
}

} // namespace

extern "C" TALLY_HIDDEN int _dl_find_object(void *address, dl_find_object *result) noexcept {
  if (realFindObject)
    return realFindObject(address, result);
  std::memset(result, 0, sizeof *result);
  Search search = {reinterpret_cast<uintptr_t>(address), result};
  return dl_iterate_phdr(&looksAt, &search) == 1 ? 0 : -1;
}
#endif

// Headers of 2.38 lead to these functions, which accept the binary numbers of C23; the callers here
// read no such numbers.
#if __GLIBC_PREREQ(2, 38)
extern "C" {
long olderStrtol(const char *, char **, int) noexcept asm("strtol");
long long olderStrtoll(const char *, char **, int) noexcept asm("strtoll");
unsigned long olderStrtoul(const char *, char **, int) noexcept asm("strtoul");
unsigned long long olderStrtoull(const char *, char **, int) noexcept asm("strtoull");
int olderVsscanf(const char *, const char *, va_list) noexcept asm("__isoc99_vsscanf");

TALLY_HIDDEN long __isoc23_strtol(const char *text, char **end, int base) noexcept {
  return olderStrtol(text, end, base);
}
TALLY_HIDDEN long long __isoc23_strtoll(const char *text, char **end, int base) noexcept {
  return olderStrtoll(text, end, base);
}
TALLY_HIDDEN unsigned long __isoc23_strtoul(const char *text, char **end, int base) noexcept {
  return olderStrtoul(text, end, base);
}
TALLY_HIDDEN unsigned long long __isoc23_strtoull(const char *text, char **end, int base) noexcept {
  return olderStrtoull(text, end, base);
}
TALLY_HIDDEN int __isoc23_sscanf(const char *text, const char *format, ...) noexcept {
  va_list arguments;
  va_start(arguments, format);
  int read = olderVsscanf(text, format, arguments);
  va_end(arguments);
  return read;
}
}
#endif

namespace {

/// Runs before all other constructors. Later a lookup could deadlock: a thread that loads a library
/// holds the loader's lock, which lookups take, and may wait for a thread that calls these
/// functions.
__attribute__((constructor(101))) void findFunctions() {
  realWaitUntil = find<WaitUntil>("pthread_cond_clockwait");
#if __GLIBC_PREREQ(2, 35)
  realFindObject = find<FindObject>("_dl_find_object");
#endif
  dlerror(); // the program's first error must be its own
}

} // namespace
