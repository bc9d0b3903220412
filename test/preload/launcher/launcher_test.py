"""The launcher with real commands. CMakeLists.txt sets the tested programs and the stubs: LAUNCHER, RECORDER
(preloaded in place of Tally's library), DRIVER (the folder of a libcuda.so.1), PROGRAMS, MUSL_LOADER, TOP."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import unittest

launcher = os.environ["LAUNCHER"]
recorder = os.environ["RECORDER"]
programs = pathlib.Path(os.environ["PROGRAMS"])
without_driver = "tally: there is no driver of a GPU"


class Launcher(unittest.TestCase):
    """Each test has a folder; commands run with a driver, and with variables of Tally's only if the test sets them."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tally-launcher-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.record = self.folder / "record"
        left_out = ("LD_LIBRARY_PATH", "LD_PRELOAD")
        self.variables = {name: value for name, value in os.environ.items()
                          if not name.startswith(("TALLY_", "CUDA_")) and name not in left_out}
        self.variables.update(LD_LIBRARY_PATH=os.environ["DRIVER"], TALLY_PRELOAD_LIBRARY=recorder,
                              LAUNCHER_TEST_RECORD=str(self.record), PATH="/usr/bin:/bin")

    def tally(self, *words, input=b"", **changes):
        variables = {**self.variables, **{name: value for name, value in changes.items() if value is not None}}
        for name in [name for name, value in changes.items() if value is None]:
            variables.pop(name, None)
        return subprocess.run([launcher, *map(str, words)], input=input, capture_output=True, env=variables, timeout=60,
                              cwd=self.folder)

    def run_well(self, *words, **changes):
        """Standard output of a command that succeeds without output on standard error."""
        done = self.tally("run", *words, **changes)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        return done.stdout.decode()

    def recorded(self):
        return self.record.read_text().split() if self.record.exists() else []

    def variables_of(self, *words, **changes):
        lines = self.run_well(*words, "env", "-0", **changes).split("\0")
        return dict(line.split("=", 1) for line in lines if line)


class Process(Launcher):
    """The command replaces the launcher in its process."""

    def test_exit_status(self):
        for status in (0, 1, 125, 200, 255):
            self.assertEqual(self.tally("run", "sh", "-c", f"exit {status}").returncode, status)

    def test_signals_end_it(self):
        for name in ("TERM", "KILL", "SEGV"):
            done = self.tally("run", "sh", "-c", f"kill -{name} $$")
            self.assertEqual(done.returncode, -signal.Signals["SIG" + name])

    def test_process_is_the_same_and_gets_signals(self):
        command = [launcher, "run", "sh", "-c", "trap 'exit 7' TERM; echo $$; while :; do sleep 0.05; done"]
        with subprocess.Popen(command, env=self.variables, stdout=subprocess.PIPE) as process:
            self.assertEqual(int(process.stdout.readline()), process.pid)
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(60), 7)

    def test_standard_streams(self):
        text = os.urandom(1 << 20)
        done = self.tally("run", "cat", input=text)
        self.assertEqual((done.returncode, done.stdout == text, done.stderr), (0, True, b""))
        done = self.tally("run", "sh", "-c", "echo error >&2; echo output")
        self.assertEqual((done.stdout, done.stderr), (b"output\n", b"error\n"))

    def test_what_is_inherited_stays(self):
        def state(*front):
            def ignore():
                signal.signal(signal.SIGHUP, signal.SIG_IGN)
                os.umask(0o123)
            words = [*front, "sh", "-c", "grep -E 'Sig(Blk|Ign|Cgt)' /proc/self/status; ls /proc/self/fd; umask; pwd"]
            done = subprocess.run(words, env=self.variables, capture_output=True, preexec_fn=ignore, cwd=self.folder, timeout=60)
            return done.stdout
        self.assertEqual(state(launcher, "run"), state())

    def test_arguments_are_passed_on(self):
        words = ["%s\n", "", "a b", "--stats", "--", "-x", "\N{GREEK SMALL LETTER ALPHA}"]
        self.assertEqual(self.run_well("--", "printf", *words).split("\n")[:-1], words[1:])


class Failures(Launcher):
    """125: the launcher; 126: not executable; 127: not found."""

    def failed(self, status, part, *words, **changes):
        done = self.tally(*words, **changes)
        error = done.stderr.decode()
        self.assertEqual((done.returncode, done.stdout), (status, b""), error)
        self.assertIn(part, error)
        self.assertEqual(error.count("\n"), 1, error)
        self.assertEqual([name for name in self.recorded() if name == "touch"], [])

    def test_usage(self):
        self.failed(125, "run, status, doctor or advise?")
        self.failed(125, "'tally run' takes a command", "run")
        self.failed(125, "unknown option '--stat'", "run", "--stat", "touch", "made")
        self.failed(125, "--trace takes a file", "run", "--trace")

    def test_not_found_and_not_executable(self):
        self.failed(127, "no-such-command: No such file or directory", "run", "no-such-command")
        self.failed(127, "./no-such: No such file", "run", "./no-such")
        plain = self.folder / "plain"
        plain.write_text("echo")
        self.failed(126, "plain: Permission denied", "run", plain)
        self.failed(126, f"{self.folder}: Permission denied", "run", self.folder)

    def test_wrong_settings(self):
        command = ("touch", "made")
        self.failed(125, "TALLY_BEST_EFFORT_CLASS=5: allowed are 1 to 4", "run", "--best-effort=5", *command)
        self.failed(125, "TALLY_POLICY=none:", "run", "--policy", "none", *command)
        self.failed(125, "TALLY_CLASS=best: allowed are high or best-effort", "run", *command, TALLY_CLASS="best")
        self.failed(125, "TALLY_CLAS is no setting", "run", *command, TALLY_CLAS="best-effort")
        self.failed(125, "counts with TALLY_CLASS=best-effort only", "run", *command, TALLY_MEMORY_QUOTA="1G")
        self.failed(125, "TALLY_CLAS is no setting", "run", *command, TALLY_CLAS="x", LD_LIBRARY_PATH=None)
        self.assertFalse((self.folder / "made").exists())

    def test_library_is_missing(self):
        self.failed(125, "looked for: /no/such.so", "run", "touch", "made", TALLY_PRELOAD_LIBRARY="/no/such.so")
        odd = self.folder / "with space.so"
        shutil.copy(recorder, odd)
        self.failed(125, "a space or a colon", "run", "touch", "made", TALLY_PRELOAD_LIBRARY=str(odd))
        self.assertFalse((self.folder / "made").exists())

    def test_library_of_an_installed_launcher(self):
        (self.folder / "bin").mkdir()
        installed = self.folder / "bin" / "tally"
        shutil.copy(launcher, installed)
        words = [installed, "run", "cat"]
        variables = {**self.variables, "TALLY_PRELOAD_LIBRARY": ""}
        done = subprocess.run(words, env=variables, capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 125)
        self.assertIn(f"looked for: {self.folder}/lib/tally/libtally_preload.so\n", done.stderr.decode())
        place = self.folder / "lib" / "tally"
        place.mkdir(parents=True)
        shutil.copy(recorder, place / "libtally_preload.so")
        done = subprocess.run(words, env=variables, capture_output=True, timeout=60, input=b"")
        self.assertEqual((done.returncode, done.stderr, self.recorded()), (0, b"", ["cat"]))


class Environment(Launcher):
    def test_options_are_variables(self):
        found = self.variables_of("--best-effort=2", "--arena", "/tmp/a", "--policy=priority", "--stats", "--trace", "t")
        wanted = dict(TALLY_CLASS="best-effort", TALLY_BEST_EFFORT_CLASS="2", TALLY_ARENA="/tmp/a", TALLY_POLICY="priority",
                      TALLY_STATS="1", TALLY_TRACE="t", LD_PRELOAD=recorder)
        self.assertEqual({name: found.get(name) for name in wanted}, wanted)
        self.assertEqual(self.recorded(), ["env"])

    def test_nothing_else_changes(self):
        changed = {name: value for name, value in self.variables_of().items() if self.variables.get(name) != value}
        connections = changed.pop("CUDA_DEVICE_MAX_CONNECTIONS")
        self.assertIn(connections, ("32", "4"))  # 4 under MPS
        self.assertEqual(changed, dict(TALLY_CLASS="high", LD_PRELOAD=recorder, CUDA_MPS_CLIENT_PRIORITY="0"))

    def test_a_nested_command_has_the_priority_of_its_own_class(self):
        found = self.variables_of(launcher, "run", "--best-effort")
        self.assertEqual((found["TALLY_CLASS"], found["CUDA_MPS_CLIENT_PRIORITY"]), ("best-effort", "1"))
        self.assertEqual(self.variables_of(CUDA_MPS_CLIENT_PRIORITY="1")["CUDA_MPS_CLIENT_PRIORITY"], "1")

    def test_children_inherit(self):
        self.run_well("--best-effort", "sh", "-c", "cat /dev/null; [ $TALLY_CLASS = best-effort ]")
        self.assertEqual(self.recorded(), ["sh", "cat"])

    def test_order_of_preloads(self):
        other, third = self.folder / "other.so", self.folder / "third.so"
        shutil.copy(recorder, other)
        shutil.copy(recorder, third)
        both = f"{other} {third}"
        self.assertEqual(self.variables_of(LD_PRELOAD=both)["LD_PRELOAD"], f"{recorder}:{other}:{third}")
        there = f"{other}:{recorder}"
        self.assertEqual(self.variables_of(LD_PRELOAD=there)["LD_PRELOAD"], there)

    def test_nested(self):
        found = self.variables_of("--best-effort=2", "--stats", launcher, "run", "--best-effort=3", "--")
        self.assertEqual(found["LD_PRELOAD"], recorder)
        self.assertEqual((found["TALLY_CLASS"], found["TALLY_BEST_EFFORT_CLASS"], found["TALLY_STATS"]), ("best-effort", "3", "1"))
        self.assertEqual(self.variables_of("--best-effort", launcher, "run")["TALLY_CLASS"], "best-effort")

    def test_relative_library(self):
        shutil.copy(recorder, self.folder / "here.so")
        found = self.variables_of(TALLY_PRELOAD_LIBRARY="here.so")
        self.assertEqual(found["LD_PRELOAD"], str(self.folder.resolve() / "here.so"))

    def test_disabled(self):
        found = self.variables_of(TALLY_DISABLE="1", TALLY_PRELOAD_LIBRARY="/no/such.so")
        self.assertNotIn("LD_PRELOAD", found)
        self.assertNotIn("TALLY_CLASS", found)

    def test_dashes(self):
        for words in (["--"], []):
            self.assertEqual(self.run_well(*words, "echo", "--", "--stats"), "-- --stats\n")


class WithoutPreload(Launcher):
    """Commands run all the same, and one line names the missing part."""

    def warned(self, part, *words, **changes):
        done = self.tally("run", *words, **changes)
        error = done.stderr.decode()
        self.assertEqual(done.returncode, 0, error)
        self.assertIn(part, error)
        self.assertEqual(error.count("\n"), 1, error)
        return done.stdout.decode()

    def test_without_a_driver(self):
        if self.has_driver():
            self.skipTest("this machine has a driver")
        found = self.warned(without_driver, "--best-effort", "env", LD_LIBRARY_PATH=None)
        self.assertNotIn("LD_PRELOAD", found)
        self.assertIn("TALLY_CLASS=best-effort", found)
        self.assertEqual(self.recorded(), [])
        self.warned(without_driver, "true", LD_LIBRARY_PATH=None, TALLY_PRELOAD_LIBRARY="/no/such.so")
        done = self.tally("run", "sh", "-c", "exit 5", LD_LIBRARY_PATH=None)
        self.assertEqual(done.returncode, 5)

    def has_driver(self):
        return without_driver not in self.tally("run", "true", LD_LIBRARY_PATH=None).stderr.decode()

    def test_static(self):
        if not (programs / "launcher_static").exists():
            self.skipTest("nothing is linked statically here")
        self.assertEqual(self.warned("is linked statically", programs / "launcher_static"), "hello\n")

    def test_musl(self):
        loader = pathlib.Path(os.environ["MUSL_LOADER"])
        if not loader.exists():
            maps = pathlib.Path("/proc/self/maps").read_text()
            real = next(line.split()[-1] for line in maps.splitlines() if "/ld-linux" in line)
            loader.symlink_to(real)
        self.assertEqual(self.warned("is a program of musl", programs / "launcher_musl"), "hello\n")
        self.assertEqual(self.recorded(), [])

    def test_other_rights(self):
        if os.geteuid() != 0:
            self.skipTest("only root gives files to others")
        program = self.folder / "echo"
        shutil.copy("/bin/echo", program)
        os.chown(program, 1, 1)
        program.chmod(0o4755)
        if os.statvfs(program).f_flag & os.ST_NOSUID:
            self.skipTest("set-user-ID has no meaning in this folder")
        self.folder.chmod(0o755)
        self.assertEqual(self.warned("runs with rights of its own", program, "hello"), "hello\n")
        self.assertEqual(self.recorded(), [])

    def test_script(self):
        script = self.folder / "script"
        script.write_text(f"#!/usr/bin/env -S {programs / 'launcher_static'}\n")
        script.chmod(0o755)
        if (programs / "launcher_static").exists():
            self.warned("launcher_static is linked statically", script)
        script.write_text("#!/bin/sh\necho hello\n")
        self.assertEqual(self.run_well(script), "hello\n")
        self.assertEqual(self.recorded()[-1], "sh")


class Doctor(Launcher):
    def findings(self, *words, **changes):
        done = self.tally("doctor", "--json", *words, **changes)
        report = json.loads(done.stdout)
        bad = [each for each in report["findings"] if each["verdict"] == "bad"]
        self.assertEqual((report["bad"], done.returncode, done.stderr), (len(bad), 1 if bad else 0, b""))
        self.assertTrue(all(bool(each["mend"]) == (each["verdict"] != "ok") for each in report["findings"]))
        found = {}
        for each in report["findings"]:
            found.setdefault(each["thing"], []).append((each["verdict"], each["what"]))
        return found

    def has(self, findings, thing, verdict, part):
        self.assertTrue(any(seen == verdict and part in what for seen, what in findings[thing]), findings.get(thing))

    def test_devices(self):
        found = self.findings()
        self.has(found, "driver", "ok", "CUDA 13.1")
        self.has(found, "GPU 0", "ok", "Stub H100, compute capability 9.0")
        self.has(found, "GPU 1", "note", "Stub A10, compute capability 8.6")
        self.has(found, "preloaded library", "ok", recorder)
        self.has(found, "settings", "ok", "TALLY_PRELOAD_LIBRARY=")

    def test_driver_that_fails(self):
        self.has(self.findings(LAUNCHER_TEST_DRIVER="empty"), "GPUs", "bad", "cuInit() fails: 100 CUDA_ERROR_NO_DEVICE")
        self.has(self.findings(LAUNCHER_TEST_DRIVER="crash"), "driver", "bad", "ended by signal 6 (Aborted)")
        self.has(self.findings(LAUNCHER_TEST_DRIVER="hang"), "driver", "bad", "no answer within 5 s")

    def test_cpus(self):
        (verdict, what), = self.findings()["CPUs"]
        count = int(what.split()[0].rstrip(":"))
        self.assertIn(count, range(1, len(os.sched_getaffinity(0)) + 1))
        self.assertEqual(verdict, "ok" if count >= 8 else "note")

    def test_two_drivers(self):
        shutil.copy(pathlib.Path(os.environ["DRIVER"], "libcuda.so.1"), self.folder)
        found = self.findings(LD_LIBRARY_PATH=f"{os.environ['DRIVER']}:{self.folder}")
        self.has(found, "driver", "note", f"more than once: {os.environ['DRIVER']}/libcuda.so.1, {self.folder}/libcuda.so.1")

    def test_environment(self):
        found = self.findings(CUDA_MODULE_LOADING="EAGER", CUDA_DEVICE_MAX_CONNECTIONS="1", CUDA_INJECTION64_PATH="/x.so",
                              LD_PRELOAD=recorder, TALLY_CLAS="x", CUDA_MPS_PIPE_DIRECTORY="/no/such", TRITON_PTXAS_PATH="/no/ptxas",
                              XDG_CACHE_HOME="/dev/null/cache", TALLY_ARENA="/no/such/arena")
        for name in ("CUDA_MODULE_LOADING", "CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_INJECTION64_PATH", "LD_PRELOAD", "MPS"):
            self.has(found, name, "note", "")
        for name in ("settings", "ptxas", "cache", "arena"):
            self.has(found, name, "bad", "")
        for name in ("control", "log"):
            (self.folder / name).write_text("")
        self.has(self.findings(CUDA_MPS_PIPE_DIRECTORY=str(self.folder)), "MPS", "ok", str(self.folder))
        self.has(self.findings(TALLY_DISABLE="1"), "settings", "note", "TALLY_DISABLE=1")
        self.has(self.findings(TALLY_PRELOAD_LIBRARY="/bin/nothing"), "preloaded library", "bad", "looked for: /bin/nothing")
        self.has(self.findings(TALLY_PRELOAD_LIBRARY=__file__), "preloaded library", "bad", "no library of this machine")

    def test_tools(self):
        ptxas = self.folder / "ptxas"
        ptxas.write_text("#!/bin/sh\necho 'Cuda compilation tools, release 12.9, V12.9.1'\n")
        ptxas.chmod(0o755)
        self.has(self.findings(TRITON_PTXAS_PATH=str(ptxas)), "ptxas", "ok", f"{ptxas}, release 12.9")
        self.has(self.findings(PATH=f"{self.folder}:/bin"), "ptxas", "ok", f"{ptxas}, release 12.9")
        cache = self.folder / "tally"
        cache.mkdir()
        (cache / "file").write_bytes(b"x" * (3 << 20))
        self.has(self.findings(XDG_CACHE_HOME=str(self.folder)), "cache", "ok", f"{cache}, 3 MiB")

    def test_command(self):
        self.has(self.findings("--", "cat", "--stats"), "command", "ok", "a library can be preloaded")
        self.has(self.findings("no-such-command"), "command", "bad", "not found")
        self.has(self.findings(programs / "launcher_linked"), "command", "note", "linked with Tally already")
        if (programs / "launcher_static").exists():
            self.has(self.findings(programs / "launcher_static"), "command", "bad", "linked statically")
        self.assertEqual(self.recorded(), [])

    def test_text(self):
        done = self.tally("doctor", "cat")
        lines = done.stdout.decode().splitlines()
        self.assertTrue(lines and all(line.startswith(("ok    ", "note  ", "bad   ", "      -> ")) for line in lines), lines)


class Others(Launcher):
    def test_help_and_version(self):
        for words in (["--help"], ["--version"], ["run", "--help"], ["status", "--help"], ["doctor", "--help"],
                      ["advise", "--help"]):
            done = self.tally(*words)
            self.assertEqual((done.returncode, done.stderr), (0, b""))
            self.assertIn(b"tally", done.stdout)
        with open("/dev/full", "w") as full:
            done = subprocess.run([launcher, "--help"], stdout=full, env=self.variables, timeout=60)
            self.assertEqual(done.returncode, 125)

    def test_status_without_an_arena(self):
        done = self.tally("status", "--arena", self.folder)
        top = subprocess.run([os.environ["TOP"], "--once", f"--arena={self.folder}"], capture_output=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (1, b""))
        self.assertEqual(done.stderr.replace(b"tally:", b"tally-top:"), top.stderr)


if __name__ == "__main__":
    unittest.main()
