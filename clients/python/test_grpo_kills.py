"""Tests of examples/grpo/kills.py: what the account of a run that was killed notices. Nothing but Python is needed."""

import copy
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples" / "grpo"))
import kills

STATUS = {"launched": 7, "buffer": {**dict.fromkeys(kills.STATES, 0), "completed": 6, "dropped": 1}}
RECORDS = [{"step": k, "done": True, "service": {"groups": [{"seq": 2 * k}, {"seq": 2 * k + 1}]}} for k in range(3)]
JOURNAL = [
    {"step": k, "groups": [2 * k, 2 * k + 1], "trajectories": ["%d/%d" % (k, i) for i in range(4)], "updates": k + 1}
    for k in range(3)
]  # fmt: skip


def other(step, **fields):
    return [{**line, **fields} if line["step"] == step else line for line in JOURNAL]


class Account(unittest.TestCase):
    def test_what_it_notices(self):
        again = [*JOURNAL[:2], JOURNAL[1], JOURNAL[2]]
        cases = [
            # what happened, journal, records, lost and duplicated of 12 trajectories, and what is said of it
            ("nothing", JOURNAL, RECORDS, 0, 0, ""),
            ("a step was done again with the same batch", again, RECORDS, 0, 0, ""),
            ("and with another", [*JOURNAL, {**JOURNAL[1], "trajectories": ["x"]}, JOURNAL[1]], RECORDS, 0, 1, "two batches"),
            ("a step was never trained", JOURNAL[:2], RECORDS, 4, 0, "step 2 is not in the journal"),
            ("a step was not recorded", JOURNAL, RECORDS[:2], 4, 0, "step 2 is not recorded"),
            ("or given up again", JOURNAL, [*RECORDS[:2], {**RECORDS[2], "done": False}], 4, 0, "step 2 is not recorded"),
            ("a game is missing", other(1, trajectories=["a", "b", "c"]), RECORDS, 1, 0, "step 1 was trained on 3"),
            ("a game is in two steps", other(1, trajectories=["0/0", "b", "c", "d"]), RECORDS, 0, 1, "0/0 is in 2 steps"),
            ("other groups than were granted", other(1, groups=[2, 6]), RECORDS, 0, 0, "the service granted [2, 3]"),
            ("the weights learned from a batch twice", other(2, updates=4), RECORDS, 0, 4, "learned from 4 batches"),
            ("the weights went back", other(2, updates=2), RECORDS, 4, 0, "learned from 2 batches"),
        ]
        for name, journal, records, lost, twice, said in cases:
            with self.subTest(name):
                got = kills.account(STATUS, records, journal, 3, 2, 4)
                self.assertEqual(got[:2], (lost, twice), got[2])
                self.assertIn(said, " ".join(got[2]))
                self.assertEqual(bool(got[2]), bool(said), got[2])

    def test_groups_that_are_nowhere_are_lost(self):
        status = copy.deepcopy(STATUS)
        status["launched"] = 8
        self.assertEqual(kills.account(status, RECORDS, JOURNAL, 3, 2, 4)[:2], (2, 0))

    def test_each_part_is_killed_once_at_a_step_of_its_own(self):
        for steps in (5, 12, 40):
            at = [step for step, _ in kills.moments(steps)]
            self.assertEqual(at, sorted(set(at)))
            self.assertLess(0, at[0])
            self.assertLess(at[-1], steps)


if __name__ == "__main__":
    unittest.main()
