#!/usr/bin/env python3
"""Checks ptxas's machine code of the variants of kernels in test/kernels: every barrier gets whole warps, and
threads that stop one by one stay together with their warps. It also checks that the test finds violations.

  variants_test.py TALLY_PTXOPT PTXAS NVDISASM
"""
import os
import re
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
KERNELS = os.path.join(os.path.dirname(HERE), "kernels")
SKIPPED = 77
# Kernels with a barrier, an atomic on shared memory or a loop for each thread before a barrier; of all kinds.
CHECKED = ("bar_red", "barrier_data_loop", "barrier_divergent_exit", "barrier_reduce", "barrier_tiles", "block_1024", "callee_barrier",
           "checkpoint_threads", "dynamic_shared", "early_return", "exit_mid", "func_barrier", "mma_gemm", "named_barrier", "parted",
           "scan", "shared_reuse", "strides", "strips", "warp_exit", "warp_ops")

# The worker's end in an earlier version of pause: it made ptxas trust the aligned barriers of the body.
ENDING = """
$tally_ending:
	mov.u32 %tally_r0, %tid.x;
	setp.ne.u32 %tally_leave, %tally_r0, 0;
	@%tally_leave ret;
$tally_staying:
	ld.param.u64 %tally_d5, [$tally_launch];
	ld.relaxed.gpu.u64 %tally_d5, [%tally_d5];
	setp.ne.u64 %tally_leave, %tally_d5, 77;
	nanosleep.u32 1000;
	@%tally_leave bra $tally_staying;
	ret;
"""


def rewritten(kernel, folder, *options):
    path = os.path.join(folder, kernel + ".ptx")
    subprocess.run([PTXOPT, "-S", os.path.join(KERNELS, kernel + ".ptx"), "-o", path, *options], check=True, capture_output=True)
    return path


def parted(*paths):
    done = subprocess.run([sys.executable, os.path.join(HERE, "parted.py"), "--nvdisasm", NVDISASM, "--ptxas", PTXAS, *paths],
                          capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def counted(path, *instructions):
    """The number of each of these instructions, by entry."""
    subprocess.run([PTXAS, "-arch=sm_90", path, "-o", path + ".cubin"], check=True, capture_output=True)
    listing = subprocess.run([NVDISASM, "-c", path + ".cubin"], check=True, capture_output=True, text=True).stdout
    sections = re.split(r"^\.text\.(\S+):$", listing, flags=re.MULTILINE)[1:]
    return {name: [len(re.findall(rf"\b{each}\b", text)) for each in instructions]
            for name, text in zip(sections[::2], sections[1::2])}


class InFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name


class ThreadsThatStopAlone(InFolder):
    """The kernels of test/kernels/joined.ptx, whose threads make different numbers of turns. At BSYNC the threads of
    a warp meet; YIELD lets waiting threads go on."""
    KERNELS = ("joined_skips", "joined_deep", "joined_ways", "joined_far")

    def checkpoints(self, change=lambda text: text):
        """The counts of BSYNC and YIELD in each kernel's variant after the change."""
        path = rewritten("joined", self.folder, "--variants=checkpoint", "--poll-period=64")
        with open(path) as file:
            text = file.read()
        with open(path, "w") as file:
            file.write(change(text))
        found = counted(path, "BSYNC", "YIELD")
        return [found[each + "$tally_checkpoint"] for each in self.KERNELS]

    def test_meet_where_they_would_not_if_who_stops_went_on(self):
        goes_on = re.compile(r"(\$tally_stopped:\s*)ret;")
        parted = self.checkpoints(lambda text: goes_on.sub(r"\1bra $tally_next;", text))
        for (meetings, _), (fewer, _) in zip(self.checkpoints(), parted):
            self.assertGreater(meetings, fewer)

    def test_are_waited_for_as_they_would_not_be_if_what_was_read_were_judged_straight(self):
        own_word = re.compile(r"st\.u32 \[%tally_d1\], %tally_\w+;\s*ld\.u32 %tally_\w+, \[%tally_d1\];")
        for (_, none), (_, some) in zip(self.checkpoints(), self.checkpoints(lambda text: own_word.sub("", text))):
            self.assertEqual(none, 0)
            self.assertGreater(some, 0)


class Variants(InFolder):
    def test_are_whole_at_barriers(self):
        status, said = parted(*[rewritten(each, self.folder, "--variants=all") for each in CHECKED])
        self.assertEqual(status, 0, said)
        kernels, barriers = map(int, re.search(r"(\d+) kernels, (\d+) barriers, 0 parted, 0 not known", said).groups())
        self.assertGreater(kernels, 5 * len(CHECKED))
        self.assertGreater(barriers, kernels)

    def test_found_without_the_mending(self):
        """Undoes both halves of the correction in pause, and each half alone, which is enough for this kernel."""
        path = rewritten("parted", self.folder, "--variants=all")
        with open(path) as file:
            text = file.read()
        others, pause = text[:text.index(".entry parted$tally_pause(")], text[text.index(".entry parted$tally_pause("):]
        start = pause.index("bar.sync", pause.index("$tally_agree:"))
        aligned = pause[:start] + pause[start:].replace("barrier.sync", "bar.sync")
        self.assertNotEqual(aligned, pause)

        def leaves_to_code(variant):
            self.assertIn("@%tally_leave ret;", variant)
            return variant.replace("@%tally_leave ret;", "@%tally_leave bra $tally_ending;").replace("\n}\n", ENDING + "}\n", 1)

        for variant, status in ((leaves_to_code(aligned), 1), (aligned, 0), (leaves_to_code(pause), 0)):
            with open(path, "w") as file:
                file.write(others + variant)
            found, said = parted(path)
            self.assertEqual(found, status, said)
            self.assertEqual("parted$tally_pause: parted: BAR.SYNC" in said, status == 1, said)


if __name__ == "__main__":
    PTXOPT, PTXAS, NVDISASM = sys.argv[1:4]
    if not (os.path.isfile(PTXAS) and os.path.isfile(NVDISASM)):
        print("no ptxas or no nvdisasm")
        sys.exit(SKIPPED)
    unittest.main(argv=sys.argv[:1])
