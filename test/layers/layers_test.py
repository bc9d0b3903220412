"""layers_test.py SOURCE_DIR: checks that the folders of lib/runtime and lib/hooks include only the headers that
layers.txt allows, and checks their sizes.

No source of the repository has more than 500 lines.

The test finds each quoted include as the compiler does: beside the file, else in lib/runtime, lib/hooks, lib,
lib/include. The test also adds forbidden includes and files to a copy, and must find them."""
import pathlib
import re
import shutil
import sys
import tempfile
import unittest

here = pathlib.Path(__file__).parent
source = pathlib.Path(sys.argv.pop(1))
roots = ("lib/runtime", "lib/hooks", "lib", "lib/include")
most_files, most_lines = 30, 500
suffixes = {".h", ".cpp", ".def", ".cu"}


def read_layers():
    layers = {}
    for line in (here / "layers.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            folder, _, uses = line.partition(":")
            layers[folder] = uses.split()
    return layers


def folder_of(tree, path):
    """The folder's name in layers.txt; None if the file belongs to no folder of these libraries."""
    parts = path.relative_to(tree / "lib").parts
    name = "/".join(parts[:2]) if parts[0] in ("runtime", "hooks") else parts[0]
    return name if name in layers else None


def included(tree, path, name):
    for folder in (path.parent, *(tree / root for root in roots)):
        if (folder / name).is_file():
            return (folder / name).resolve()
    return None


def complaints(tree):
    """The faults of the tree, a sentence each."""
    tree = tree.resolve()
    found, seen, used = [], set(), set()
    for path in sorted((tree / "lib").rglob("*")):
        top = path.relative_to(tree / "lib").parts[0]
        if path.suffix not in suffixes or top not in ("runtime", "hooks", "emulated_cuda", "preload"):
            continue
        name, me = path.relative_to(tree), folder_of(tree, path)
        if me is None:
            found.append(f"{name} is in no folder of layers.txt")
            continue
        seen.add(me)
        for header in re.findall(r'^\s*#\s*include\s+"([^"]+)"', path.read_text(), re.MULTILINE):
            target = included(tree, path, header)
            if target is None:
                if not header.startswith("tally/"):
                    found.append(f"{name} includes {header}, which is nowhere")
                continue
            other = folder_of(tree, target)
            used.add((me, other))
            if other not in (None, me, *layers[me]):
                found.append(f"{name} includes {header}, of {other}, which {me} may not include")
    for folder, uses in layers.items():
        found += [f"layers.txt lets {folder} include {each}, which it does not" for each in uses if (folder, each) not in used]
        count = len([each for each in (tree / "lib" / folder).iterdir() if each.suffix in suffixes]) if folder in seen else 0
        if count == 0:
            found.append(f"layers.txt names {folder}, which has no source file")
        if count > most_files and folder.startswith(("runtime/", "hooks/")):
            found.append(f"lib/{folder} has {count} source files, more than {most_files}")
    return found


def long_files(tree):
    found = []
    for folder in ("include", "lib", "tools", "examples", "unittests", "test", "benchmarks"):
        for path in sorted((tree / folder).rglob("*")):
            if path.suffix in {".h", ".hpp", ".cpp", ".cu", ".py"} and (lines := len(path.read_text().splitlines())) > most_lines:
                found.append(f"{path.relative_to(tree)} has {lines} lines, more than {most_lines}")
    return found


class Layers(unittest.TestCase):
    def copy(self):
        folder = tempfile.TemporaryDirectory(prefix="tally-layers-")
        self.addCleanup(folder.cleanup)
        tree = pathlib.Path(folder.name)
        shutil.copytree(source / "lib", tree / "lib")
        return tree

    def test_no_folder_names_one_behind_it(self):
        known = []
        for folder, uses in layers.items():
            self.assertEqual([each for each in uses if each not in known], [], folder)
            known.append(folder)

    def test_the_tree(self):
        self.assertEqual(complaints(source), [])

    def test_planted_includes_are_found(self):
        for file, header, folder in (("lib/runtime/base/spin.h", "dispatch/dispatcher.h", "runtime/dispatch"),
                                     ("lib/runtime/lane/lane.h", "arena/arena.h", "runtime/arena"),
                                     ("lib/hooks/state/streams.h", "engine/best_effort_engine.h", "hooks/engine"),
                                     ("lib/hooks/tables/cuda_api.h", "emulated_cuda/memory.h", "emulated_cuda")):
            with self.subTest(file=file):
                tree = self.copy()
                path = tree / file
                path.write_text(f'#include "{header}"\n' + path.read_text())
                wrong = complaints(tree)
                self.assertEqual(len(wrong), 1, wrong)
                self.assertIn(f"{file} includes {header}, of {folder}", wrong[0])

    def test_no_file_is_long(self):
        self.assertEqual(long_files(source), [])
        tree = self.copy()
        (tree / "lib/hooks/work/long.h").write_text("\n" * (most_lines + 1))
        self.assertEqual(len(long_files(tree)), 1)

    def test_too_many_files_and_files_elsewhere_are_found(self):
        tree = self.copy()
        for i in range(most_files):
            (tree / f"lib/runtime/base/more{i}.h").write_text("")
        (tree / "lib/hooks/elsewhere.h").write_text("")
        wrong = complaints(tree)
        self.assertEqual(len(wrong), 2, wrong)
        self.assertIn("lib/hooks/elsewhere.h is in no folder", wrong[0])
        self.assertIn("lib/runtime/base has", wrong[1])


layers = read_layers()
unittest.main()
