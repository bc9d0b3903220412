#!/usr/bin/env python3
"""hooks_switch.py finds its variable in libtally_preload.so, and turns the hooks off and on.

  hooks_switch_test.py LIBRARY STRIP
"""
import os
import subprocess
import sys
import tempfile
import unittest

import hooks_switch

HERE = os.path.dirname(os.path.abspath(__file__))
LIBRARY, STRIP = sys.argv[1:3]
# A request without a place for its number is an error only while the hooks are on.
PROGRAM = """
import ctypes, hooks_switch
begin = ctypes.CDLL(None).tally_request_begin_v1
print(begin(None, None, None))
switch = hooks_switch.Switch()
for on in (False, True, False):
    switch.turn(on)
    print(switch.is_on(), begin(None, None, None))
"""


def run(library, program=PROGRAM, **environment):
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60,
                          env={"PATH": os.environ["PATH"], "PYTHONPATH": HERE, "PYTHONDONTWRITEBYTECODE": "1", "LD_PRELOAD": library, **environment})


class HooksSwitch(unittest.TestCase):
    def test_turns_the_hooks_off_and_on(self):
        done = run(LIBRARY)
        self.assertEqual(done.stdout.split("\n"), ["1", "False 0", "True 1", "False 0", ""], done.stderr)

    def test_begins_with_the_setting(self):
        done = run(LIBRARY, TALLY_DISABLE="1")
        self.assertEqual(done.stdout.split("\n"), ["0", "False 0", "True 1", "False 0", ""], done.stderr)

    def test_a_stripped_library_keeps_the_one_symbol(self):
        with tempfile.TemporaryDirectory() as folder:
            stripped = os.path.join(folder, "libtally_preload.so")
            subprocess.run([STRIP, f"--keep-symbol={hooks_switch.SYMBOL}", "-o", stripped, LIBRARY], check=True)
            self.assertEqual(run(stripped).stdout.split("\n")[1:3], ["False 0", "True 1"])
            subprocess.run([STRIP, stripped], check=True)
            self.assertIn("lacks the symbol", run(stripped).stderr)

    def test_a_process_without_the_library_is_told(self):
        self.assertIn("start it by `tally run`", run("", "import hooks_switch; hooks_switch.Switch()").stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], warnings="ignore")
