# status.py STATUS COMMAND...: checks that the command ends with that status.
import subprocess
import sys

ended = subprocess.run(sys.argv[2:]).returncode
if ended != int(sys.argv[1]):
    sys.exit(f"status {ended} in place of {sys.argv[1]}")
