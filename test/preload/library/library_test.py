"""The preloaded library. CMakeLists.txt sets the paths: LIBRARY, LAUNCHER, DRIVER (the folder of the emulator's
libcuda.so.1), NM, READELF, CC, JIT_LINK (the stand-in for nvJitLink), RELINKED (a program that is linked with
Tally), PTXOPT."""
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

here = pathlib.Path(__file__).parent
library, launcher = os.environ["LIBRARY"], os.environ["LAUNCHER"]
rounds = 96
# 96 is a multiple of 8, so the fill is the last operation on y.
expected = "sum 4096.000, counted 12, 0 events too early\n"


class Preloaded(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tally-preload-", ignore_cleanup_errors=True)  # makers may still write
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.variables = {name: value for name, value in os.environ.items() if not name.startswith(("TALLY_", "CUDA_", "LD_"))}
        self.variables.update(TALLY_ARENA=str(self.folder / "arena"), TALLY_VARIANTS=str(self.folder / "variants"))

    def command(self, *words, timeout=120, **changes):
        """Runs the command with the library; only DRIVER in LD_LIBRARY_PATH gives it a driver, the emulator's."""
        variables = {**self.variables, "LD_PRELOAD": library, **changes}
        return subprocess.run(list(map(str, words)), capture_output=True, text=True, env=variables, timeout=timeout,
                              cwd=self.folder)

    def tally(self, *words, **changes):
        variables = {"LD_LIBRARY_PATH": os.environ["DRIVER"], "LD_PRELOAD": "", "TALLY_PRELOAD_LIBRARY": library, **changes}
        return self.command(launcher, "run", *words, **variables)

    def work(self, *options, count=rounds, **changes):
        return self.tally(*options, "--", sys.executable, here / "work.py", here / "kernels.ptx", here / "counting.ptx",
                          count, **changes)

    def made(self, count):
        """The bundles of the store, as soon as it has `count`."""
        deadline = time.monotonic() + 60
        found = []
        while len(found) < count and time.monotonic() < deadline:
            time.sleep(0.1)
            found = list((self.folder / "variants").glob("*.tally"))
        self.assertEqual(len(found), count)
        return found

    def statistics(self, done):
        lines = [line for line in done.stderr.splitlines() if line.startswith("tally: launches:")]
        self.assertEqual(len(lines), 1, done.stderr)
        return lines[0]


class File(Preloaded):
    def test_exports(self):
        names = {line.split()[-1]: line.split()[-2] for line in
                 subprocess.check_output([os.environ["NM"], "-D", "--defined-only", library], text=True).splitlines()}
        known = {"cuInit", "dlopen", "tally_preload_is_active", "tally_request_begin_v1", "tally_request_add_stream_v1",
                 "tally_request_end_v1", "tally_stream_set_class", "tally_stream_set_best_effort_class"}
        self.assertEqual(set(names), known)
        self.assertNotIn("u", names.values(), "a unique symbol, which other modules would share")

    def test_needs_the_c_library_alone(self):
        text = subprocess.check_output([os.environ["READELF"], "-d", library], text=True)
        needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", text))
        allowed = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1"}
        self.assertLessEqual({each for each in needed if not each.startswith("ld-linux")}, allowed)


class WithoutCuda(Preloaded):
    """The library does nothing before the driver is loaded."""

    def rests(self, *words):
        """Runs the command with a loadable driver, and with wrong settings that no code reads."""
        done = self.command(*words, LD_LIBRARY_PATH=os.environ["DRIVER"], TALLY_CLASS="wrong")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertFalse((self.folder / "arena").exists())
        return done.stdout

    def test_a_shell(self):
        self.assertEqual(self.rests("bash", "-c", "echo $(cat <(echo a)) | tr a b"), "b\n")
        self.assertNotIn("libcuda", self.rests("cat", "/proc/self/maps"))

    def test_a_compiler(self):
        (self.folder / "one.c").write_text("int main(void) { return 0; }\n")
        self.rests(os.environ["CC"], "one.c", "-o", "one")
        self.rests(self.folder / "one")

    def test_python_with_threads_and_forks(self):
        program = """if True:
            import ctypes, multiprocessing, os, subprocess, threading
            def double(x): return 2 * x
            threads = [threading.Thread(target=ctypes.CDLL, args=("libm.so.6",)) for _ in range(8)]
            [each.start() for each in threads]; [each.join() for each in threads]
            with multiprocessing.get_context("fork").Pool(2) as pool: print(sum(pool.map(double, range(10))))
            print(subprocess.check_output(["echo", "child"], text=True), end="")
            print(len(os.listdir("/proc/self/task")), "libcuda" in open("/proc/self/maps").read())
        """
        self.assertEqual(self.rests(sys.executable, "-c", program), "90\nchild\n1 False\n")

    def test_a_look_for_the_driver_fails_as_ever(self):
        program = "import ctypes\ntry: ctypes.CDLL('libcuda.so.1')\nexcept OSError as error: print(error)"
        done = self.command(sys.executable, "-c", program)
        self.assertIn("libcuda.so.1: cannot open shared object file", done.stdout)

    def test_the_loaders_own_folders_are_found(self):
        """dlopen looks in the RUNPATH of the object that calls it."""
        (self.folder / "inner.c").write_text("int inner(void) { return 7; }\n")
        (self.folder / "outer.c").write_text(
            '#include <dlfcn.h>\nint outer(void) { void *l = dlopen("libinner_of_test.so", RTLD_NOW);\n'
            'return l ? ((int (*)(void))dlsym(l, "inner"))() : 0; }\n')
        (self.folder / "sub").mkdir()
        shared = [os.environ["CC"], "-shared", "-fPIC"]
        subprocess.check_call([*shared, "inner.c", "-o", "sub/libinner_of_test.so"], cwd=self.folder)
        subprocess.check_call([*shared, "outer.c", "-o", "libouter.so", "-Wl,-rpath,$ORIGIN/sub", "-ldl"], cwd=self.folder)
        program = f"import ctypes; print(ctypes.CDLL('{self.folder}/libouter.so').outer())"
        self.assertEqual(self.rests(sys.executable, "-c", program), "7\n")


class WithDriver(Preloaded):
    def test_high_priority(self):
        done = self.work("--stats")
        self.assertEqual((done.returncode, done.stdout), (0, expected), done.stderr)
        self.assertIn("132 high and 0 best effort by libraries", self.statistics(done))

    def test_best_effort_alone(self):
        done = self.work("--best-effort", "--stats")
        self.assertEqual((done.returncode, done.stdout), (0, expected), done.stderr)
        self.assertIn("0 high and 132 best effort by libraries", self.statistics(done))

    def test_best_effort_scheduled(self):
        done = self.work("--best-effort", "--stats", TALLY_RUN_AHEAD_US="0")
        self.assertEqual((done.returncode, done.stdout), (0, expected), done.stderr)
        self.assertRegex(self.statistics(done), r"; [1-9]\d* physical launches")

    @unittest.skipUnless("PTXOPT" in os.environ, "there is no tally-ptxopt")
    def test_variants_are_made_and_found(self):
        """The first run makes variants, the second finds them; a module whose kernel changes a variable gets none.
        The store drops the files that a killed process has left."""
        variants = self.folder / "variants"
        variants.mkdir()
        for name, age in (("left.ptx", 7200), ("working.ptx", 60)):
            (variants / name).write_text("")
            os.utime(variants / name, (time.time() - age,) * 2)
        self.assertEqual(self.work("--best-effort").stdout, expected)
        self.made(2)
        deadline = time.monotonic() + 60
        while (variants / "left.ptx").exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        self.assertEqual([(variants / name).exists() for name in ("left.ptx", "working.ptx")], [False, True])
        trace = self.folder / "trace.json"
        done = self.work("--best-effort", "--stats", "--trace", trace, count=960, TALLY_YIELD_EVERY_US="200")
        self.assertEqual((done.returncode, done.stdout), (0, "sum 4096.000, counted 120, 0 events too early\n"), done.stderr)
        line = self.statistics(done)
        self.assertRegex(line, r"images: 1 with variants, 1 whose variants cannot be used")
        self.assertRegex(line, r"variants: [1-9]\d* guard")
        done = self.command(launcher, "advise", "--over=0", trace)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"\(process \d+\): \d+ requests to yield, [1-9]\d* of them met work, which was gone after ")
        self.assertRegex(done.stdout, r"\n +[1-9]\d* +\d+\.\d{3} ms +\d+\.\d{3} ms  axpy \(guard\)\n(.*\n)*  -> Kernels that yield")

    @unittest.skipUnless("PTXOPT" in os.environ, "there is no tally-ptxopt")
    def test_processes_fill_the_store_at_once_and_makers_are_killed(self):
        variables = {**self.variables, "LD_LIBRARY_PATH": os.environ["DRIVER"], "TALLY_PRELOAD_LIBRARY": library}
        words = [launcher, "run", "--best-effort", "--", sys.executable, here / "work.py", here / "kernels.ptx",
                 here / "counting.ptx", rounds]
        killed = 0
        for turn in range(20):
            if turn >= 3 and killed:
                break
            if not killed:  # where the store is full, no maker starts
                shutil.rmtree(self.folder / "variants", ignore_errors=True)
            started = [subprocess.Popen(list(map(str, words)), env=variables, text=True, stdout=subprocess.PIPE) for _ in range(3)]
            deadline = time.monotonic() + 2
            while time.monotonic() < deadline or any(each.poll() is None for each in started):
                for process in pathlib.Path("/proc").glob("[0-9]*"):
                    try:
                        command = (process / "cmdline").read_bytes()
                        if str(self.folder).encode() in command and b"tally-ptxopt" in command.split(b"\0")[0]:
                            os.kill(int(process.name), signal.SIGKILL)
                            killed += 1
                    except OSError:
                        pass  # it has ended
            self.assertEqual([each.communicate(timeout=120)[0] for each in started], [expected] * 3)
        self.assertGreater(killed, 0)
        self.assertEqual(self.work("--best-effort").stdout, expected)
        self.made(2)
        line = self.statistics(self.work("--best-effort", "--stats", count=960, TALLY_RUN_AHEAD_US="0"))
        self.assertRegex(line, r"images: 1 with variants, 1 whose variants cannot be used")

    def runs_by_variants(self, kernels, counting=here / "counting.ptx"):
        """In the second run work.py's kernels of `kernels` go through variants that the first run made, and those of
        `counting` do not."""
        words = ["--", sys.executable, here / "work.py", kernels, counting]
        done = self.tally("--best-effort", *words, rounds)
        self.assertEqual((done.returncode, done.stdout), (0, expected), done.stderr)
        self.made(2)
        done = self.tally("--best-effort", "--stats", *words, 960, TALLY_YIELD_EVERY_US="200")
        self.assertEqual((done.returncode, done.stdout), (0, "sum 4096.000, counted 120, 0 events too early\n"), done.stderr)
        self.assertRegex(self.statistics(done), r"images: 1 with variants, 1 whose variants cannot be used")
        self.assertRegex(self.statistics(done), r"variants: [1-9]\d* guard")

    @unittest.skipUnless("PTXOPT" in os.environ, "there is no tally-ptxopt")
    def test_a_graph_takes_variants_that_come_after_it_was_made(self):
        for options in (), ("changed",):
            with self.subTest(options=options):
                store = self.folder / f"store{len(options)}"
                done = self.tally("--best-effort", "--stats", "--", sys.executable, here / "graph.py", here / "kernels.ptx", store,
                                  *options, TALLY_VARIANTS=str(store), TALLY_RUN_AHEAD_US="0")
                self.assertEqual((done.returncode, done.stdout), (0, "0 of the launches wrong, bundle seen: True\n"), done.stderr)
                self.assertRegex(self.statistics(done), r"images: 1 with variants")
                self.assertRegex(self.statistics(done), r"variants: [1-9]\d* guard")

    @unittest.skipUnless("PTXOPT" in os.environ, "there is no tally-ptxopt")
    def test_containers_with_ptx_have_variants(self):
        containers = []
        for name in ("kernels", "counting"):
            text = (here / f"{name}.ptx").read_bytes()
            text += b"\0" * (8 - len(text) % 8)
            entry = struct.pack("<HHIQIIHHIIIQQQ", 1, 0x0101, 64, len(text), 0, 0, 0, 8, 80, 0, 0, 0x11, 0, 0) + text
            containers.append(self.folder / f"{name}.fatbin")
            containers[-1].write_bytes(struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entry)) + entry)
        self.runs_by_variants(*containers)

    @unittest.skipUnless("PTXOPT" in os.environ, "there is no tally-ptxopt")
    def test_what_the_driver_links_has_variants_made_of_its_ptx(self):
        for by in ("data", "file"):
            with self.subTest(by):
                self.runs_by_variants(f"link-{by}:{here}/kernels.ptx")
                for each in self.made(2):
                    each.unlink()

    @unittest.skipUnless("PTXOPT" in os.environ, "there is no tally-ptxopt")
    def test_what_nvjitlink_links_has_variants_made_of_its_ptx(self):
        self.runs_by_variants(f"nvjitlink-{os.environ['JIT_LINK']}:{here}/kernels.ptx")

    @unittest.skipUnless("PTXOPT" in os.environ, "there is no tally-ptxopt")
    def test_what_nvrtc_compiles_has_variants_made_of_its_ptx(self):
        subprocess.check_call([os.environ["CC"], "-shared", "-fPIC", here / "nvrtc.c", "-Wl,-soname,libnvrtc.so.13", "-o",
                               "libnvrtc.so.13"], cwd=self.folder)
        program = f"""if True:
            import ctypes, runpy, sys
            cuda = ctypes.CDLL("libcuda.so.1")
            nvrtc = ctypes.CDLL("{self.folder}/libnvrtc.so.13")
            ctypes.CDLL("libm.so.6") # as NVRTC opens a library when it compiles
            size = ctypes.c_size_t()
            nvrtc.nvrtcGetCUBINSize(None, ctypes.byref(size))
            code = ctypes.create_string_buffer(size.value + 1)
            nvrtc.nvrtcGetCUBIN(None, code)
            cuda.cuInit(0)
            context, module = ctypes.c_void_p(), ctypes.c_void_p()
            cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
            cuda.cuCtxSetCurrent(context)
            print(cuda.cuModuleLoadData(ctypes.byref(module), code))
            sys.argv = ["work.py", "{here}/kernels.ptx", "{here}/counting.ptx", "8"]
            runpy.run_path("{here}/work.py")
        """
        done = self.tally("--best-effort", "--", sys.executable, "-c", program)
        self.assertEqual(done.stdout, "0\nsum 4096.000, counted 1, 0 events too early\n", done.stderr)
        self.assertEqual(sum(b"marker_of_the_ptx" in each.read_bytes() for each in self.made(3)), 1)

    @unittest.skipUnless("PTXOPT" in os.environ, "there is no tally-ptxopt")
    def test_a_damaged_bundle_is_named_and_made_anew(self):
        self.work("--best-effort")
        self.made(2)
        good = {path: path.read_bytes() for path in (self.folder / "variants").glob("*.tally")}
        for path in good:
            path.write_bytes(good[path][:100])
        done = self.work("--best-effort", TALLY_RUN_AHEAD_US="0", count=960)
        self.assertEqual(done.stdout, "sum 4096.000, counted 120, 0 events too early\n")
        self.assertRegex(done.stderr, r"variants/[0-9a-f]{32}-[0-9.]+\.tally is damaged, and is removed")
        self.made(2)
        self.assertEqual({path: path.read_bytes() for path in good}, good)

    def test_two_processes_meet(self):
        """A process of high priority makes the best-effort one yield."""
        words = [sys.executable, str(here / "work.py"), str(here / "kernels.ptx"), str(here / "counting.ptx"), "1200"]
        variables = {**self.variables, "LD_LIBRARY_PATH": os.environ["DRIVER"], "TALLY_PRELOAD_LIBRARY": library}
        started = [subprocess.Popen([launcher, "run", *options, "--stats", "--", *words], env=variables, text=True,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                   for options in (["--best-effort"], [])]
        outputs = [each.communicate(timeout=120) for each in started]
        for output, _ in outputs:
            self.assertEqual(output, "sum 4096.000, counted 150, 0 events too early\n")
        self.assertRegex(outputs[0][1], r" [1-9]\d* requests")
        self.assertIn("1650 high and 0 best effort by libraries", outputs[1][1])

    def test_wrong_settings_stop_the_driver(self):
        done = self.command(sys.executable, here / "work.py", here / "kernels.ptx", here / "counting.ptx", rounds,
                            LD_LIBRARY_PATH=os.environ["DRIVER"], TALLY_CLASS="besteffort")
        self.assertIn("cuInit: error 800", done.stderr)
        self.assertIn("TALLY_CLASS=besteffort: allowed are", done.stderr)

    def test_left_out(self):
        done = self.work("--best-effort", "--stats", TALLY_DISABLE="1")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, expected, ""))

    def test_a_program_that_is_linked_with_the_driver(self):
        (self.folder / "linked.c").write_text(
            "int cuInit(unsigned); int cuDeviceGetCount(int *); int printf(const char *, ...);\n"
            'int main(void) { int n = 0; return cuInit(0) || cuDeviceGetCount(&n) || !printf("%d\\n", n); }\n')
        driver = os.environ["DRIVER"]
        subprocess.check_call([os.environ["CC"], "linked.c", "-o", "linked", f"{driver}/libcuda.so.1",
                               "-Wl,--allow-shlib-undefined"], cwd=self.folder)
        done = self.tally("--stats", "--", self.folder / "linked")
        self.assertEqual((done.returncode, done.stdout), (0, "1\n"), done.stderr)
        self.statistics(done)

    def test_a_library_that_opens_the_driver_while_the_program_starts(self):
        """Calls the driver as cuBLAS does: before the preloaded library's own start."""
        (self.folder / "opens.c").write_text("""#include <dlfcn.h>
static void *driver;
__attribute__((constructor)) static void start(void) { driver = dlopen("libcuda.so.1", RTLD_NOW); }
int initialize(void) { return ((int (*)(unsigned))dlsym(driver, "cuInit"))(0); }
""")
        (self.folder / "program.c").write_text("int initialize(void);\nint main(void) { return initialize(); }\n")
        for words in (("-shared", "-fPIC", "opens.c", "-ldl", "-o", "libopens.so"), ("program.c", "-L.", "-lopens", "-Wl,-rpath,$ORIGIN", "-o", "program")):
            subprocess.run([os.environ["CC"], *words], check=True, cwd=self.folder)
        done = self.tally("--", self.folder / "program", timeout=20)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_a_child_that_is_forked_before_cuda_is_used(self):
        program = ("import os, runpy, sys\n"
                   "child = os.fork()\n"
                   "if child: sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
                   f"sys.argv = ['work.py', '{here}/kernels.ptx', '{here}/counting.ptx', '{rounds}']\n"
                   f"runpy.run_path('{here}/work.py')")
        done = self.tally("--best-effort", "--stats", "--", sys.executable, "-c", program, TALLY_RUN_AHEAD_US="0")
        self.assertEqual((done.returncode, done.stdout), (0, expected), done.stderr)
        self.statistics(done)

    def test_a_child_that_is_forked_afterwards_ends_well(self):
        program = (f"import os, runpy, sys\nsys.argv = ['work.py', '{here}/kernels.ptx', '{here}/counting.ptx', '{rounds}']\n"
                   f"work = runpy.run_path('{here}/work.py')\n"
                   "child = os.fork()\n"
                   "if child: sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
                   "os._exit(5)")
        done = self.tally("--best-effort", "--", sys.executable, "-c", program, TALLY_RUN_AHEAD_US="0")
        self.assertEqual((done.returncode, done.stdout), (5, expected), done.stderr)

    @unittest.skipUnless("RELINKED" in os.environ, "there is no relinked program")
    def test_a_relinked_program_has_one_engine(self):
        done = self.tally("--best-effort", "--stats", "--", os.environ["RELINKED"], TALLY_DEVICE="emulator",
                          TALLY_RUN_AHEAD_US="0")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("2 best effort (2 through variants", self.statistics(done))


if __name__ == "__main__":
    unittest.main(verbosity=2)
