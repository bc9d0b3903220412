"""The harness of benchmarks/run."""
import os
import sys

# The package also uses the modules of two_processes.py and colocation.py; their folders come ahead of other folders of
# these names.
_BENCHMARKS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(_BENCHMARKS, folder) for folder in ("hooks", "colocation")]
