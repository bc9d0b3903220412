"""The random stream programs with PTX images, for which the preloaded library makes variants: the first run makes
them, and the second run's launches go through them. Then a third run, while other processes join their arena and
leave it again.
variants_test.py LIBRARY PROGRAM JOINS OPTION..."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

library, program, joins, *options = sys.argv[1:]
# The third image has the variable, and gets no variants.
images = 2


def run(folder, *command):
    environment = {**os.environ, "LD_PRELOAD": library, "PRELOAD_CUDART_IMAGES": "ptx", "TALLY_VARIANTS": str(folder)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    print(done.stdout, done.stderr, sep="", flush=True)
    if done.returncode != 0:
        sys.exit(f"exit status {done.returncode}")
    return done.stdout


with tempfile.TemporaryDirectory(prefix="tally-variants-") as name:
    folder = pathlib.Path(name)
    run(folder, program, "--programs=20", "--modes=best-effort")
    deadline = time.monotonic() + 120
    while len(list(folder.glob("*.tally"))) < images:
        if time.monotonic() > deadline:
            sys.exit(f"{len(list(folder.glob('*.tally')))} images have variants, not {images}")
        time.sleep(0.1)
    text = run(folder, program, *options)
    for mode in "best-effort", "storm", "coming-and-going":
        if not re.search(rf"^{mode} +best effort: [1-9]\d* launches through variants", text, re.M):
            sys.exit(f"{mode}: no launch went through variants")
    if not re.search(r"^storm .* [1-9]\d* yields", text, re.M):
        sys.exit("nothing yielded")
    run(folder, joins, program, "200")
