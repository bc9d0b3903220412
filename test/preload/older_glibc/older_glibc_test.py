"""older_glibc_test.py READELF OLDEST FILE...: checks that each FILE, an ELF file, needs no library but the C
library, and no version of its names above OLDEST."""
import re
import subprocess
import sys

allowed = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0"}


def number(version):
    return tuple(map(int, version.split(".")))


def faults(readelf, oldest, path):
    """Lines about forbidden needs of the file. Names of versions without a number are features that the loader needs
    (GLIBC_ABI_DT_RELR), all of which came later."""
    text = subprocess.check_output([readelf, "-d", "-V", "-W", path], text=True)
    libraries = re.findall(r"\(NEEDED\).*\[(.*)\]", text)
    if "libc.so.6" not in libraries:
        yield f"{path}: needs no libc.so.6: {libraries}"
    for library in libraries:
        if library not in allowed and not library.startswith("ld-linux"):
            yield f"{path}: needs {library}"
    versions = set(re.findall(r"Name: (\S+) +Flags:", text))
    if not versions:
        yield f"{path}: needs no versions"
    for version in sorted(versions):
        found = re.fullmatch(r"GLIBC_([0-9.]+)", version)
        if not found or number(found[1]) > number(oldest):
            yield f"{path}: needs {version}"


def main(readelf, oldest, *paths):
    lines = [line for path in paths for line in faults(readelf, oldest, path)]
    print(*lines, sep="\n")
    return 1 if lines or not paths else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
