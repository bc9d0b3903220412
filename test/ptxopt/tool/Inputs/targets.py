# Rewrites a module for every target, at the lowest version that has the target and at the highest, and assembles the
# results by ptxas: targets.py PTXOPT PTXAS FOLDER
import pathlib
import re
import subprocess
import sys

# PTX ISA, "Release Notes": the version in which each target came.
since = {
    "sm_75": "6.3", "sm_80": "7.0", "sm_86": "7.1", "sm_87": "7.4", "sm_89": "7.8", "sm_90": "7.8",
    "sm_90a": "8.0", "sm_100": "8.6", "sm_100a": "8.6", "sm_100f": "8.8", "sm_103": "8.8", "sm_103a": "8.8",
    "sm_103f": "8.8", "sm_110": "9.0", "sm_110a": "9.0", "sm_110f": "9.0", "sm_120": "8.7", "sm_120a": "8.7",
    "sm_120f": "8.8", "sm_121": "8.8", "sm_121a": "8.8", "sm_121f": "8.8",
}
ptxopt, ptxas, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
inputs = pathlib.Path(__file__).parent
folder.mkdir(exist_ok=True)
assembled = 0
for target, version in since.items():
    number = int(re.sub(r"\D", "", target))
    for kernel in ["any-target.ptx", "any-cluster.ptx"] if number >= 90 else ["any-target.ptx"]:
        for at in sorted({version, "9.0"}):
            text = (inputs / kernel).read_text()
            text = re.sub(r"\.version .*\n\.target .*\n", f".version {at}\n.target {target}\n", text)
            ours, variants = folder / "in.ptx", folder / "out.ptx"
            ours.write_text(text)
            subprocess.run([ptxopt, ours, "--variants=all", "--verify-each", "-S", "-o", variants, "--no-assemble",
                            f"--report-file={folder / 'report.txt'}"], check=True)
            emitted = variants.read_text().count("$tally_launch[104]")
            # slice, guard and its resume entry; persistent if the kernel has no clusters.
            assert emitted == (4 if kernel == "any-target.ptx" else 3), (target, at, emitted)
            subprocess.run([ptxas, f"-arch={target}", "-O0", variants, "-o", folder / "out.cubin"], check=True)
            assembled += 1
print(f"{assembled} modules assembled")
