"""A CPU-only PyTorch under `tally run`: a training with workers, threads and started processes gives the same
results as without, and the library stays inactive, since the program does not use CUDA. CMakeLists.txt sets the
paths: LIBRARY, LAUNCHER, DRIVER. Exit status 77: no Python here has PyTorch."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

launcher, driver = os.environ["LAUNCHER"], os.environ["DRIVER"]
here = pathlib.Path(__file__).parent


def python_with_torch():
    for python in dict.fromkeys((sys.executable, "/usr/bin/python3")):
        if os.path.exists(python) and subprocess.run([python, "-c", "import torch"], capture_output=True).returncode == 0:
            return python
    return None


python = python_with_torch()


class CpuOnly(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tally-pytorch-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def training(self, *words, **changes):
        variables = {name: value for name, value in os.environ.items() if not name.startswith(("TALLY_", "LD_"))}
        variables.update(TALLY_ARENA=str(self.folder / "arena"), TALLY_PRELOAD_LIBRARY=os.environ["LIBRARY"], OMP_NUM_THREADS="2",
                         **changes)
        done = subprocess.run([*words, python, str(here / "cpu_training.py")], capture_output=True, text=True, env=variables,
                              timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def test_the_same_with_and_without(self):
        plain = self.training()
        self.assertRegex(plain.stdout, r"^weights [0-9a-f]{64}, 2 workers, children \[4, 9\], preloaded False\n$")
        expected = plain.stdout.replace("preloaded False", "preloaded True")
        for options in ([], ["--best-effort", "--stats"]):
            done = self.training(launcher, "run", *options, "--", LD_LIBRARY_PATH=driver)
            self.assertEqual((done.stdout, done.stderr), (expected, plain.stderr))
        self.assertFalse((self.folder / "arena").exists(), "nobody used CUDA")

    def test_without_a_driver(self):
        done = self.training(launcher, "run", "--best-effort", "--")
        self.assertRegex(done.stdout, r"^weights [0-9a-f]{64}, 2 workers, children \[4, 9\], preloaded False\n$")
        self.assertRegex(done.stderr, r"^tally: .*libcuda\.so\.1.*\n")


if __name__ == "__main__":
    if not python:
        print("no Python here has PyTorch (Debian: python3-torch)")
        sys.exit(77)
    unittest.main(verbosity=2)
