# Text tests: each .ptx or .test file under ptxopt/ holds its own RUN and CHECK lines.
import os
import shutil

import lit.formats

config.name = "tally"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".ptx", ".test"]
config.test_source_root = os.path.dirname(__file__)
config.excludes = ["execution", "kernels", "preload", "Inputs"]
config.test_exec_root = lit_config.params["build_dir"]

tools = lit_config.params["llvm_tools"]
config.substitutions += [
    ("%tally-ptxopt", lit_config.params["ptxopt"]),
    ("%llvm-as", os.path.join(tools, "llvm-as")),
    ("%full", "full" if os.environ.get("TEST_FULL") else ""),
    ("FileCheck", os.path.join(tools, "FileCheck")),
    (r"\| count\b", "| " + os.path.join(tools, "count")),
    (r"\bnot\b", os.path.join(tools, "not")),
    ("%python", lit_config.params["python"]),
    ("%source", lit_config.params["source_dir"]),
]
if lit_config.params.get("ptxas"):
    config.available_features.add("ptxas")
    config.substitutions.append(("%ptxas", lit_config.params["ptxas"]))
if lit_config.params.get("nvcc"):
    config.available_features.add("nvcc")
    config.substitutions.append(("%nvcc", lit_config.params["nvcc"]))
if shutil.which("ld.lld"):
    config.available_features.add("lld")
config.environment["TMPDIR"] = os.environ.get("TMPDIR", "/tmp")
# Each build has a cache of its own; tests of the cache name theirs.
config.environment["XDG_CACHE_HOME"] = os.path.join(lit_config.params["build_dir"], "cache")
