#!/usr/bin/env python3
"""The findings of parted.py in short listings written by hand: the test needs no nvdisasm."""
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(HERE)
from listing import sections
from parted import check, kernels_of_rows

# After these instructions P0 varies, and UP0 and P1 do not.
OPENING = """
S2R R0, SR_TID.X ;
ULDC UR4, c[0x0][0x210] ;
ISETP.NE.AND P0, PT, R0, RZ, PT ;
ISETP.NE.AND P1, PT, RZ, UR4, PT ;
"""


def listing(name, code, opening=OPENING):
    """nvdisasm's form of one instruction a line; a line that ends in a colon is a label."""
    lines = [f'\t.section\t.text.{name},"ax",@progbits', f'\t.other {name},@"STO_CUDA_ENTRY STV_DEFAULT"', f"{name}:", f".text.{name}:"]
    address = 0
    for line in (opening + code).strip().splitlines():
        line = line.strip()
        if line.endswith(":"):
            lines.append(line)
        elif line:
            guard, rest = line.split(" ", 1) if line.startswith("@") else ("", line)
            lines.append(f"        /*{address:04x}*/  {guard:>12} {rest}")
            address += 16
    return "\n".join(lines) + "\n"


def found(code, opening=OPENING):
    section, = sections(listing("kernel", code, opening))
    kernel = check(section)
    return len(kernel.parted), len(kernel.unknown)


BARRIER = """
BAR.SYNC.DEFER_BLOCKING 0x0 ;
EXIT ;
"""
# The lanes leave a loop that counts a register down one after the other.
TURNS = """
.L_turn:
IADD3 R0, R0, -0x1, RZ ;
ISETP.NE.AND P0, PT, R0, RZ, PT ;
@P0 BRA `(.L_turn) ;
"""


class Branches(unittest.TestCase):
    def test_whole(self):
        self.assertEqual(found(BARRIER), (0, 0))

    def test_lanes_differ(self):
        self.assertEqual(found("@P0 BRA `(.L_1) ;\nNOP ;\n.L_1:" + BARRIER), (1, 0))

    def test_each_form_of_a_barrier(self):
        for form in ("BAR.RED.OR.DEFER_BLOCKING 0x0, P1 ;", "BAR.ARV 0x1, 0x40 ;", "BAR.SYNC.DEFER_BLOCKING R4, R4 ;", "@P1 BAR.SYNC 0x1, 0x40 ;"):
            self.assertEqual(found("@P0 BRA `(.L_1) ;\nNOP ;\n.L_1:\n" + form + "\nEXIT ;"), (1, 0), form)

    def test_both_conditions_of_a_branch_count(self):
        self.assertEqual(found("@P1 BRA P0, `(.L_1) ;\nNOP ;\n.L_1:" + BARRIER), (1, 0))

    def test_table(self):
        branch = "BRX R{} -0x60 (*\"BRANCH_TARGETS .L_1,.L_2\"*);\n.L_1:\nNOP ;\n.L_2:" + BARRIER
        self.assertEqual(found(branch.format(0)), (1, 0))
        self.assertEqual(found("MOV R6, UR4 ;\n" + branch.format(6)), (0, 0))

    def test_uniform_values(self):
        self.assertEqual(found("@P1 BRA `(.L_1) ;\nNOP ;\n.L_1:" + BARRIER), (0, 0))
        self.assertEqual(found("@P0 BRA.U.ANY `(.L_1) ;\nNOP ;\n.L_1:" + BARRIER), (0, 0))

    def test_who_has_left_does_not_count(self):
        self.assertEqual(found("@P0 EXIT ;" + BARRIER), (0, 0))


class Meetings(unittest.TestCase):
    def test_bsync(self):
        self.assertEqual(found("BSSY B0, `(.L_2) ;\n@P0 BRA `(.L_1) ;\nNOP ;\n.L_1:\nBSYNC B0 ;\n.L_2:" + BARRIER), (0, 0))

    def test_bsync_of_lanes_that_were_apart_before(self):
        self.assertEqual(found("@P0 BRA `(.L_0) ;\nNOP ;\n.L_0:\nBSSY B0, `(.L_2) ;\n@P0 BRA `(.L_1) ;\nNOP ;\n.L_1:\nBSYNC B0 ;\n.L_2:"
                               + BARRIER), (1, 0))

    def test_warpsync(self):
        parted = "@P0 BRA `(.L_1) ;\nNOP ;\n.L_1:\n{}" + BARRIER
        for form, left in (("WARPSYNC.ALL ;", 0), ("IMAD.MOV.U32 R6, RZ, RZ, -0x1 ;\nWARPSYNC R6 ;", 0), ("WARPSYNC R0 ;", 1),
                           ("IMAD.MOV.U32 R6, RZ, RZ, 0x1fff ;\nWARPSYNC R6 ;", 1), ("@P1 WARPSYNC.ALL ;", 1)):
            self.assertEqual(found(parted.format(form)), (left, 0), form)

    def test_turns(self):
        self.assertEqual(found(TURNS + BARRIER), (1, 0))
        self.assertEqual(found("BSSY B0, `(.L_2) ;" + TURNS + "BSYNC B0 ;\n.L_2:" + BARRIER), (0, 0))
        self.assertEqual(found(TURNS.replace("R0", "R6") + BARRIER, OPENING + "MOV R6, UR4 ;"), (0, 0))

    def test_break(self):
        code = "BSSY B0, `(.L_2) ;\n@{0} BREAK B0 ;\n@{0} BRA `(.L_3) ;\n@P0 BRA `(.L_1) ;\nNOP ;\n.L_1:\nBSYNC B0 ;\n.L_2:\nNOP ;\n.L_3:" + BARRIER
        self.assertEqual(found(code.format("P0")), (1, 0))
        self.assertEqual(found(code.format("P1")), (0, 0))

    def test_barrier_that_is_not_aligned(self):
        """Lanes that diverge take the slow path. There the barrier has a whole warp, and behind it the lanes are in
        the state of before."""
        slow = "@P0 BRA `(.L_1) ;\nNOP ;\n.L_1:\nUMOV UR4, {} ;\nBRA.DIV UR4, `(.L_2) ;\nBAR.SYNC.DEFER_BLOCKING 0x0 ;\n.L_4:\n{}EXIT ;\n" \
            ".L_2:\nWARPSYNC.COLLECTIVE.ALL `(.L_3) ;\nBAR.SYNC.DEFER_BLOCKING R8, R8 ;\nENDCOLLECTIVE ;\n.L_3:\nBRA `(.L_4) ;"
        self.assertEqual(found(slow.format("0xffffffff", "")), (0, 0))
        self.assertEqual(found(slow.format("0xffffffff", "BAR.SYNC.DEFER_BLOCKING 0x0 ;\n")), (1, 0))
        self.assertEqual(found(slow.format("0xffff", "")), (1, 0))


class Data(unittest.TestCase):
    def branch(self, code):
        return found(code + "\n@P3 BRA `(.L_9) ;\nNOP ;\n.L_9:" + BARRIER)

    def test_vote(self):
        self.assertEqual(self.branch("VOTE.ANY P3, P0 ;"), (0, 0))
        self.assertEqual(self.branch("PLOP3.LUT P3, PT, P0, PT, PT, 0x80, 0x0 ;"), (1, 0))
        self.assertEqual(self.branch("BSSY B0, `(.L_2) ;\n@P0 BRA `(.L_1) ;\nVOTE.ANY P3, P0 ;\n.L_1:\nBSYNC B0 ;\n.L_2:"), (1, 0))

    def test_loads(self):
        compare = "\nISETP.NE.AND P3, PT, R6, RZ, PT ;"
        for load, parted in (("LDG.E R6, desc[UR4][R4.64] ;", 0), ("LDS R6, [UR4] ;", 0), ("LDS R6, [R0] ;", 1), ("LDL R6, [R1] ;", 1),
                             ("LDC R6, c[0x0][0x4] ;", 0), ("LDC R6, c[0x3][R0] ;", 1), ("SHFL.IDX PT, R6, R0, RZ, 0x1f ;", 0),
                             ("SHFL.BFLY PT, R6, R0, 0x1, 0x1f ;", 1), ("B2R.RESULT R6 ;", 0), ("S2R R6, SR_CTAID.X ;", 0), ("S2R R6, SR_LANEID ;", 1),
                             ("ATOMG.E.ADD.STRONG.GPU PT, R6, desc[UR4][R4.64], R2 ;", 1), ("MATCH.ANY R6, R2 ;", 1)):
            self.assertEqual(self.branch(load + compare), (parted, 0), load)

    def test_never_less_than_nothing(self):
        self.assertEqual(self.branch("ISETP.LT.U32.AND P3, PT, R0, RZ, PT ;"), (0, 0))
        self.assertEqual(self.branch("ISETP.LT.AND P3, PT, R0, RZ, PT ;"), (1, 0))

    def test_pairs(self):
        self.assertEqual(self.branch("IMAD.WIDE.U32 R4, R0, 0x4, R8 ;\nISETP.NE.AND P3, PT, R5, RZ, PT ;"), (1, 0))
        self.assertEqual(self.branch("MOV R5, R0 ;\nLDS.64 R4, [UR4] ;\nISETP.NE.AND P3, PT, R5, RZ, PT ;"), (0, 0))

    def test_warp_of_a_row(self):
        for shift, parted in (5, 0), (4, 1):
            code = f"SHF.R.U32.HI R6, RZ, {shift:#x}, R0 ;\nISETP.NE.AND P0, PT, R6, 0x1, PT ;\n@P0 BRA `(.L_9) ;\nNOP ;\n.L_9:" + BARRIER
            section, = sections(listing("kernel", code))
            self.assertEqual([len(check(section, rows).parted) for rows in (False, True)], [1, parted])
        text = ".entry a(\n.param .u32 p\n)\n.reqntid 96, 1, 1\n{\n}\n.entry b()\n.reqntid 48, 2\n{\n}\n.entry c()\n.maxntid 64, 2\n{\n}\n.entry d\n.reqntid 64, 2\n{"
        self.assertEqual(kernels_of_rows(text), {"a", "d"})

    def test_guarded(self):
        self.assertEqual(self.branch("MOV R6, RZ ;\n@P0 MOV R6, 0x1 ;\nISETP.NE.AND P3, PT, R6, RZ, PT ;"), (1, 0))

    def test_joined_behind_a_branch(self):
        meet = "BSSY B0, `(.L_2) ;\nMOV R6, RZ ;\n@{} BRA `(.L_1) ;\nMOV R6, 0x1 ;\n.L_1:\nBSYNC B0 ;\n.L_2:\nISETP.NE.AND P3, PT, R6, RZ, PT ;"
        self.assertEqual(self.branch(meet.format("P0")), (1, 0))
        self.assertEqual(self.branch(meet.format("P1")), (0, 0))

    def test_counted_in_turns_of_their_own(self):
        code = "MOV R6, RZ ;\nBSSY B0, `(.L_2) ;" + TURNS.replace("IADD3", "IADD3 R6, R6, 0x1, RZ ;\nIADD3", 1) + \
            "BSYNC B0 ;\n.L_2:\nISETP.NE.AND P3, PT, R6, 0x5, PT ;"
        self.assertEqual(self.branch(code), (1, 0))

    def test_load_by_a_part(self):
        """Values that lanes load one after the other may differ, even from one address."""
        load = "LDG.E R6, desc[UR4][R4.64] ;\n"
        code = "@P0 BRA `(.L_1) ;\nNOP ;\n.L_1:\n{}WARPSYNC.ALL ;\n{}ISETP.NE.AND P3, PT, R6, RZ, PT ;"
        self.assertEqual(self.branch(code.format(load, "")), (1, 0))
        self.assertEqual(self.branch(code.format("", load)), (0, 0))


class Calls(unittest.TestCase):
    def test_of_a_function(self):
        code = "MOV R4, 0x60 ;\nCALL.REL.NOINC `($kernel$callee) ;" + BARRIER + "$kernel$callee:\n@P0 BRA `(.L_1) ;\nNOP ;\n.L_1:\nRET.REL.NODEC R4 `(kernel) ;"
        self.assertEqual(found(code), (1, 0))
        self.assertEqual(found(code.replace("@P0", "@P1")), (0, 0))
        self.assertEqual(found(code.replace("@P0", "BSSY B6, `(.L_2) ;\n@P0").replace(".L_1:", ".L_1:\nBSYNC B6 ;\n.L_2:")), (0, 0))

    def test_not_known(self):
        self.assertEqual(found("CALL.ABS.NOINC R4 ;" + BARRIER), (0, 1))
        self.assertEqual(found("CALL.ABS.NOINC R4 ;\nWARPSYNC.ALL ;" + BARRIER), (0, 0))
        self.assertEqual(found("BMOV.32 B6, R4 ;" + BARRIER), (0, 1))
        self.assertEqual(found("BSYNC B3 ;" + BARRIER), (0, 1))

    def test_saved_barrier_register(self):
        code = "BSSY B6, `(.L_3) ;\nBMOV.32.CLEAR R4, B6 ;\nBSSY B6, `(.L_2) ;\n@P0 BRA `(.L_1) ;\nNOP ;\n.L_1:\nBSYNC B6 ;\n.L_2:\nBMOV.32 B6, R4 ;\nBSYNC B6 ;\n.L_3:"
        self.assertEqual(found(code + BARRIER), (0, 0))


class Program(unittest.TestCase):
    def run_on(self, *texts, options=()):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a.sass")
            with open(path, "w") as file:
                file.write("".join(texts))
            return subprocess.run([sys.executable, os.path.join(HERE, "parted.py"), *options, path], capture_output=True, text=True)

    def test_says_where(self):
        done = self.run_on(listing("kernel", TURNS + BARRIER))
        self.assertEqual(done.returncode, 1)
        self.assertIn("kernel: parted: BAR.SYNC.DEFER_BLOCKING 0x0 at 0x70: BRA `(.L_turn) at 0x60; by 0x70", done.stdout)
        self.assertIn("1 kernels, 1 barriers, 1 parted, 0 not known", done.stdout)

    def test_what_a_variant_adds(self):
        bad, good = TURNS + BARRIER, BARRIER
        for user, variant, status in ((bad, bad, 0), (good, bad, 1), (bad, good, 0), (bad, TURNS + BARRIER.replace("EXIT ;", "") + BARRIER, 1)):
            done = self.run_on(listing("kernel", user), listing("kernel$tally_pause", variant), options=["--added"])
            self.assertEqual(done.returncode, status, done.stdout)

    def test_without_nvdisasm(self):
        done = subprocess.run([sys.executable, os.path.join(HERE, "parted.py"), "a.cubin"], capture_output=True, text=True,
                              env={"PATH": "/nonexistent"})
        self.assertEqual((done.returncode, done.stderr), (77, "no nvdisasm\n"))


if __name__ == "__main__":
    unittest.main()
