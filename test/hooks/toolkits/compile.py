"""Checks that the sources that include CUDA's headers compile with the headers of another toolkit (-fsyntax-only).

    compile.py COMPILE_COMMANDS INCLUDE SOURCE_DIR [INCLUDE_DIR...]

INCLUDE: the other toolkit's headers; INCLUDE_DIR: the headers of the commands, which are left out.
"""

import json
import os
import re
import shlex
import subprocess
import sys

FOLDERS = ("lib/emulated_cuda", "lib/hooks", "lib/runtime")


def command_with(entry, include, others):
    """The entry's command without its output, with the other headers in place of its own."""
    words, result = shlex.split(entry["command"]), []
    words = words[next(i for i, word in enumerate(words) if not os.path.basename(word).startswith("ccache")):]
    result, words = [words[0], "-isystem", include], words[1:]
    while words:
        word = words.pop(0)
        if word in ("-isystem", "-I", "-o"):
            value = words.pop(0)
            if word != "-o" and os.path.realpath(value) not in others:
                result += [word, value]
        elif word != "-c" and not (word.startswith("-I") and os.path.realpath(word[2:]) in others):
            result.append(word)
    return result


def sources_of(path):
    """The sources that CMake compiles together in one file (CMAKE_UNITY_BUILD), else the source itself."""
    if "/Unity/" not in path:
        return [path]
    with open(path) as text:
        return re.findall(r'#include "(.*\.cpp)"', text.read())


def run(words, folder):
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def main(commands, include, source, *others):
    others = {os.path.realpath(each) for each in others}
    compiled, wrong = 0, []
    for entry in json.load(open(commands)):
        names = [os.path.relpath(each, source) for each in sources_of(os.path.join(entry["directory"], entry["file"]))]
        if not any(name.startswith(tuple(each + "/" for each in FOLDERS)) for name in names):
            continue
        words = command_with(entry, include, others)
        status, included, errors = run(words + ["-M"], entry["directory"])
        if status == 0 and include not in included:
            continue
        if status == 0:
            status, _, errors = run(words + ["-fsyntax-only"], entry["directory"])
        compiled += len(names)
        if status != 0:
            wrong += names
            print(errors, file=sys.stderr)
    if wrong:
        sys.exit(f"{len(wrong)} of {compiled} sources do not compile with {include}: {' '.join(wrong)}")
    if compiled < 40:
        sys.exit(f"{compiled} sources in {commands} include CUDA's headers; it is not read as it is written")
    print(f"{compiled} sources compile")


main(*sys.argv[1:])
