"""compare.py LAUNCHER [NAME...]: PyTorch's programs (run_programs.py) without Tally and under `LAUNCHER run` in each mode; what
differs is named. A program that differs between two plain runs, or cannot run without Tally, is left out of the count. Needs a GPU and PyTorch. Triton's
and Inductor's caches are folders of each mode's own, so that each compiles."""
import os
import pathlib
import subprocess
import sys
import tempfile

here = pathlib.Path(__file__).parent
modes = {"plain": None, "again": None, "high": ([], {}), "best-effort": (["--best-effort"], {}),
         "scheduled": (["--best-effort"], {"TALLY_RUN_AHEAD_US": "0"}),
         "storm": (["--best-effort"], {"TALLY_YIELD_EVERY_US": "100"})}


def run(launcher, mode, names, folder):
    """Name → digest. A process that dies costs the programs that it had not written yet."""
    variables = {**os.environ, "TRITON_CACHE_DIR": f"{folder}/triton", "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor",
                 "TALLY_ARENA": "off", "TALLY_STATS": "1", "TALLY_VARIANTS": f"{folder}/variants"}
    command = [sys.executable, str(here / "run_programs.py"), *names]
    if modes[mode]:
        options, settings = modes[mode]
        command = [launcher, "run", *options, "--", *command]
        variables.update(settings)
    found = {}
    try:
        done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=120 + 40 * len(names))
        said, ending, errors = done.stdout, f"exit status {done.returncode}", done.stderr
    except subprocess.TimeoutExpired as late:
        said, ending, errors = (late.stdout or b"").decode(), "too late", (late.stderr or b"").decode()
    for line in said.splitlines():
        if line.count("\t") == 2:
            name, value, _ = line.split("\t")
            found[name] = value
    for name in names:
        found.setdefault(name, ending)
    for line in errors.splitlines():
        if line.startswith("tally:"):
            print(f"  {mode}: {line}")
    return found


def main(launcher, *chosen):
    listed = [line.split() for line in subprocess.check_output([sys.executable, str(here / "run_programs.py"), "--list"],
                                                               text=True).splitlines()]
    wanted = [words for words in listed if not chosen or words[0] in chosen]
    groups = [[words[0] for words in wanted if len(words) == 1]] + [[words[0]] for words in wanted if len(words) == 2]
    results = {}
    for mode in modes:
        with tempfile.TemporaryDirectory(prefix="tally-pytorch-") as folder:
            results[mode] = {}
            for names in filter(None, groups):
                results[mode].update(run(launcher, mode, names, folder))
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


sys.exit(main(*sys.argv[1:]))
