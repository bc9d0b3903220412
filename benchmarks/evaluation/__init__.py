"""The harness of benchmarks/run."""
import os
import sys

# What two_processes.py and colocation.py have is used here too; ahead of the folders of these names.
_BENCHMARKS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(_BENCHMARKS, folder) for folder in ("hooks", "colocation")]
