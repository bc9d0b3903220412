"""Objects of nvcc, in every compression and kind of code, through tally-ptxopt and back.

    round_trip.py TOOL NVCC SOURCE DIR [full]

The PTX that the tool extracts from each object must equal nvcc's PTX in an uncompressed fatbin, which this script
takes apart without the tool. The rewritten object must hold that text unchanged in front of the variants, in the
same compression, with the same options, and must link. Machine code must be compressed like the PTX, though nvcc by
default compresses PTX alone. With `full` the test runs all combinations, with both linkers; else a selection that
covers each mode and kind once.
"""
import pathlib
import re
import struct
import subprocess
import sys

tool, nvcc, source, directory = sys.argv[1:5]
full = "full" in sys.argv[5:]
directory = pathlib.Path(directory)

MODES = ["none", "speed", "balance", "size"]
KINDS = {
    "whole": ["-arch=sm_90"],
    "relocatable": ["-arch=sm_90", "-rdc=true"],
    "debug": ["-arch=sm_90", "-G"],
    "several": ["-gencode=arch=compute_80,code=[compute_80,sm_80]",
                "-gencode=arch=compute_90,code=[compute_90,sm_90]", "-Xptxas=-O1", "-lineinfo"],
    "specific": ["-arch=sm_90a"],  # nvcc adds PTX for compute_90 too
}
LINKERS = [[], ["-Xcompiler", "-fuse-ld=lld"]]


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def sections(data):
    """The contents of an ELF file's sections by name."""
    table, = struct.unpack_from("<Q", data, 40)
    count, names_at = struct.unpack_from("<HH", data, 60)
    headers = [struct.unpack_from("<IIQQQQ", data, table + 64 * i) for i in range(count)]
    found = {}
    for name, _, _, _, offset, size in headers:
        start = headers[names_at][4] + name
        found[data[start:data.index(b"\0", start)].decode()] = data[offset:offset + size]
    return found


def section_of(object_file):
    """The bytes of the object's fatbin."""
    found = sections(object_file.read_bytes())
    return found.get(".nv_fatbin") or found["__nv_relfatbin"]


def entries_of(fatbin):
    """(kind, arch, flags, options, payload as stored) of each entry of the first container."""
    magic, _, header, size = struct.unpack_from("<IHHQ", fatbin)
    assert magic == 0xBA55ED50, "no container"
    at, end, entries = header, header + size, []
    while at < end:
        kind, _, header, padded, _, options, _, _, arch = struct.unpack_from("<HHIQIIHHI", fatbin, at)
        flags, = struct.unpack_from("<Q", fatbin, at + 40)
        text = b""
        if kind == 1:
            offset, length = struct.unpack_from("<II", fatbin, at + options)
            text = fatbin[at + offset:at + offset + length]
        entries.append((kind, arch, flags, text, fatbin[at + header:at + header + padded]))
        at += header + padded
    return entries


def compile_object(mode, kind):
    path = directory / f"{kind}.{mode}.o"
    run(nvcc, "-DWITH_MAIN", f"--compress-mode={mode}", *KINDS[kind], "-c", source, "-o", path)
    return path


def extracted(path):
    """The PTX in an object by architecture, as the tool extracts it."""
    folder = directory / (path.name + ".ptx")
    run(tool, path, "-S", "--variants=none", "-o", str(folder) + "/")
    return {p.name.split(".compute_")[1].split(".")[0]: p.read_bytes() for p in folder.iterdir()}


def normalised(text):
    """PTX without the parts that the fatbin leaves out: comments, indentation, tabs."""
    lines = re.sub(rb"//[^\n]*", b"", text).split(b"\n")
    return [b" ".join(line.split()) for line in lines if line.strip()]


def reference(kind):
    """nvcc's PTX by architecture, out of an uncompressed fatbin."""
    entries = entries_of(section_of(compile_object("none", kind)))
    return {str(e[1]) + ("a" if e[2] & 0x100000 else ""): e[4].rstrip(b"\0")
            for e in entries if e[0] == 1}


COMPRESSED = 0x2000 | 0x8000  # LZ4, zstd


def expected_header(entry, entries):
    """The expected header of a rewritten entry: unchanged, but if only the PTX was compressed, the code is
    compressed as well."""
    kind, arch, flags, options, _ = entry
    if kind == 2 and not flags & COMPRESSED:
        flags |= next(e[2] & COMPRESSED for e in entries if e[:2] == (1, arch))
    return kind, arch, flags, options


def check_code(before, after):
    """Checks that the user's kernels are assembled with the same options, to the same bytes."""
    old, new = (sections(entry[4]) for entry in (before, after))
    kernels = [name for name in old if name.startswith(".text.")]
    assert len(kernels) >= 2 and len(new) > len(old), "kernels are missing"
    assert all(old[name] == new[name] for name in kernels), "the user's machine code changed"


def check_linked(path, kind, linker):
    program = path.with_suffix(".lld" if linker else ".ld")
    run(nvcc, *KINDS[kind], *linker, path, "-o", program)
    for command in (["true"], ["strip", "--strip-all", program]):
        run(*command)
        assert "bundle of" in run(tool, "--list", program), f"{program}: no bundle"


def check(mode, kind, expected, linkers):
    path = compile_object(mode, kind)
    before = entries_of(section_of(path))
    original = extracted(path)
    assert original and original == (expected or original), f"{path}: the PTX is not nvcc's"
    run(tool, "--in-place", path, "--verify-each")
    after = entries_of(section_of(path))
    assert [expected_header(e, before) for e in before] == [e[:4] for e in after], \
        f"{path}: an entry's header changed"
    assert all(a[4] != b[4] for a, b in zip(before, after)), f"{path}: an entry was not rewritten"
    for a, b in zip(before, after):
        if a[0] == 2 and mode == "none":
            check_code(a, b)
    for arch, text in extracted(path).items():
        assert text.startswith(original[arch]), f"{path}: the user's PTX changed"
        assert b"$tally_guard_resume" in text[len(original[arch]):], f"{path}: no variants"
    for linker in linkers:
        check_linked(path, kind, linker)
    print(f"{mode} {kind}: ok")


directory.mkdir(parents=True, exist_ok=True)
if full:
    for kind in KINDS:
        expected = reference(kind)
        for mode in MODES:
            check(mode, kind, expected, LINKERS)
    # nvcc's output with -ptx equals the PTX in its fatbin.
    run(nvcc, "-DWITH_MAIN", "-ptx", "-arch=compute_90", source, "-o", directory / "nvcc.ptx")
    assert (normalised((directory / "nvcc.ptx").read_bytes()) == normalised(reference("whole")["90"]))
else:
    check("none", "several", reference("several"), [])
    check("none", "relocatable", reference("relocatable"), [])
    check("none", "specific", None, [])
    check("speed", "whole", reference("whole"), LINKERS)
    check("balance", "relocatable", None, LINKERS[1:])
    check("size", "debug", None, [])
    check("balance", "specific", None, [])
