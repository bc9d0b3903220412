"""compare.py [--minutes=N] LAUNCHER [NAME...]: runs PyTorch's programs (run_programs.py) without Tally and under
`LAUNCHER run` in each mode, all modes at once, and names the differences. It does not count a program that differs
between two plain runs, or cannot run without Tally. The script needs a GPU and PyTorch. Each mode has folders of its
own for the caches of Triton and Inductor, so that each compiles. --minutes: the script ends a mode that takes
longer, and counts its missing programs as different."""
import argparse
import concurrent.futures
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

here = pathlib.Path(__file__).parent
modes = {"plain": None, "again": None, "high": ([], {}), "best-effort": (["--best-effort"], {}),
         "scheduled": (["--best-effort"], {"TALLY_RUN_AHEAD_US": "0"}),
         "storm": (["--best-effort"], {"TALLY_YIELD_EVERY_US": "100"})}


def run(launcher, mode, names, folder, end):
    """Name → digest. A process that dies, or that is ended at time `end`, loses the programs that it has not written
    yet."""
    variables = {**os.environ, "TRITON_CACHE_DIR": f"{folder}/triton", "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor",
                 "TALLY_ARENA": "off", "TALLY_STATS": "1", "TALLY_VARIANTS": f"{folder}/variants"}
    command = [sys.executable, str(here / "run_programs.py"), *names]
    if modes[mode]:
        options, settings = modes[mode]
        command = [launcher, "run", *options, "--", *command]
        variables.update(settings)
    limit = min(end - time.monotonic(), 120 + 40 * len(names))
    found = {}
    with open(f"{folder}/out", "w+") as out, open(f"{folder}/err", "w+") as err:
        process = subprocess.Popen(command, env=variables, stdout=out, stderr=err, start_new_session=True)
        try:
            ending = f"exit status {process.wait(max(limit, 0))}"
        except subprocess.TimeoutExpired:
            ending = "too late"
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        out.seek(0)
        err.seek(0)
        said, errors = out.read(), err.read()
    for line in said.splitlines():
        if line.count("\t") == 2:
            name, value, _ = line.split("\t")
            found[name] = value
    for name in names:
        found.setdefault(name, ending)
    for line in errors.splitlines():
        if line.startswith("tally:"):
            print(f"  {mode}: {line}", flush=True)
    return found


def run_mode(launcher, mode, groups, end):
    begin, found = time.monotonic(), {}
    with tempfile.TemporaryDirectory(prefix="tally-pytorch-") as folder:
        for names in groups:
            found.update(run(launcher, mode, names, folder, end))
    print(f"  {mode}: {time.monotonic() - begin:.0f} s", flush=True)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("launcher")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    end = time.monotonic() + 60 * options.minutes
    listed = [line.split() for line in subprocess.check_output([sys.executable, str(here / "run_programs.py"), "--list"],
                                                               text=True).splitlines()]
    wanted = [words for words in listed if not options.names or words[0] in options.names]
    groups = [[words[0] for words in wanted if len(words) == 1]] + [[words[0]] for words in wanted if len(words) == 2]
    groups = [names for names in groups if names]
    with concurrent.futures.ThreadPoolExecutor(len(modes)) as pool:
        futures = {mode: pool.submit(run_mode, options.launcher, mode, groups, end) for mode in modes}
        results = {mode: future.result() for mode, future in futures.items()}
    wrong = unsteady = missing = 0
    for name in results["plain"]:
        values = {mode: results[mode].get(name) for mode in modes}
        if values["plain"].startswith("FAILED"):
            missing += 1
            print(f"{name}: cannot run here: {values['plain']}")
            continue
        steady = values["plain"] == values["again"]
        differs = [mode for mode, value in values.items() if value != values["plain"]]
        unsteady += not steady
        wrong += steady and bool(differs)
        state = "differs: " + ", ".join(f"{mode} {values[mode]}" for mode in differs) if differs else "same"
        print(f"{name}: {values['plain']} {state}{'' if steady else ' (unsteady without Tally)'}")
    print(f"{len(results['plain']) - missing} programs, {unsteady} unsteady without Tally, {wrong} differ; "
          f"{missing} cannot run here")
    return 1 if wrong else 0


sys.exit(main())
