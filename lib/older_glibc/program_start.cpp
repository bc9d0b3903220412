// The start files of glibc 2.34 and newer leave a program's constructors to the C library. Older C
// libraries call only the function that the start files pass. A newer C library does so too when
// the program calls the old version of its start function, and the programs here are linked with
// that version (CMakeLists.txt).
namespace {

using Main = int(int, char **, char **);
using Constructor = void(int, char **, char **);

} // namespace

extern "C" {

#define TALLY_HIDDEN __attribute__((visibility("hidden")))
// Defined by the linker.
extern TALLY_HIDDEN Constructor *__init_array_start[], *__init_array_end[];
TALLY_HIDDEN void _init();

int __real___libc_start_main(Main *main, int count, char **arguments, Constructor *init,
                             void (*fini)(), void (*loaderFini)(), void *stackEnd);

static void callConstructors(int count, char **arguments, char **environment) {
  _init();
  for (Constructor **each = __init_array_start; each != __init_array_end; ++each)
    (*each)(count, arguments, environment);
}

/// The start files call this in place of the C library's function (--wrap). The loader calls the
/// destructors.
TALLY_HIDDEN int __wrap___libc_start_main(Main *main, int count, char **arguments, Constructor *,
                                          void (*fini)(), void (*loaderFini)(), void *stackEnd) {
  return __real___libc_start_main(main, count, arguments, &callConstructors, fini, loaderFini,
                                  stackEnd);
}
}
