"""Checks that the emulated driver exports the functions of functions.def and nothing else, and that functions.def
has for each name the newest form that the driver's headers declare.

exports.py NM LIBRARY FUNCTIONS.DEF CUDATYPEDEFS.H
"""
import re
import subprocess
import sys

nm, library, functions, typedefs = sys.argv[1:]
lines = subprocess.run([nm, "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
exported = {line.split()[-1]: line.split()[-2] for line in lines.splitlines()}
with open(functions, encoding="utf-8") as file:
    rows = re.findall(r"^TALLY_DRIVER(_PTSZ|_PTDS)?\((\w+), (\d+), (\w+)\)$", file.read(), re.M)
with open(typedefs, encoding="utf-8") as file:
    declared = re.findall(r"\*PFN_(cu\w+?)_v(\d+)(_ptsz|_ptds)?\)", file.read())

wrong = []
if len(rows) < 150:
    wrong.append(f"only {len(rows)} rows are read")
for name in sorted(set(exported) ^ {symbol for *_, symbol in rows}):
    wrong.append(f"{name} is {'exported, but no row' if name in exported else 'a row, but not exported'}")
# T: code; "u" would be STB_GNU_UNIQUE, which the whole process shares.
wrong += [f"{name} is of type {kind}" for name, kind in exported.items() if kind != "T"]
newest = {}
for base, version, suffix in declared:
    if int(version) <= 13000:
        newest[base, suffix] = max(newest.get((base, suffix), 0), int(version))
for base in sorted({base for _, base, *_ in rows}):
    for suffix in ("", "_ptsz", "_ptds"):
        served = [int(version) for kind, name, version, _ in rows if name == base and kind.lower() == suffix]
        if newest.get((base, suffix), 0) != max(served, default=0):
            wrong.append(f"{base}{suffix}: the newest form is that of {newest.get((base, suffix))}, not {served}")
print("\n".join(wrong) or f"{len(rows)} functions are exported, and nothing else")
sys.exit(bool(wrong))
