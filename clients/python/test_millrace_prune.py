"""Tests of Run.prune_adapters, against answers as the service gives them."""

import os
import tempfile
import unittest

import millrace


class Answers(millrace.Client):
    """A client whose service lists these policies."""

    def __init__(self, policies):
        super().__init__("http://127.0.0.1:9")
        self.policies = policies

    def call(self, method, path, *_args):
        assert (method, path) == ("GET", "/v1/runs/demo/policies"), path
        return {"policies": self.policies}


class Prune(unittest.TestCase):
    def pruned(self, keep, *states):
        """The versions that are deleted, of versions 1 to n in these states, and of an adapter of somebody else's."""
        with tempfile.TemporaryDirectory() as prefix, tempfile.TemporaryDirectory() as elsewhere:
            paths = [os.path.join(prefix, "v%d" % version) for version in range(1, 1 + len(states))]
            for path in paths:
                os.mkdir(path)
            policies = [{"version": v, "path": p, "state": s} for v, (p, s) in enumerate(zip(paths, states, strict=True), 1)]
            run = Answers([*policies, {"version": 0, "path": elsewhere, "state": "retired"}]).run("demo", 1)
            run.spec = {"adapters": {"path_prefix": prefix}}
            gone = run.prune_adapters(keep)
            self.assertTrue(os.path.isdir(elsewhere), "nothing outside of the run's prefix is deleted")
            self.assertEqual(gone, [path for path in paths if not os.path.isdir(path)])
            return [paths.index(path) + 1 for path in gone]

    def test_the_newest_retired_versions_stay(self):
        self.assertEqual(self.pruned(2, "retired", "retired", "retired", "serving", "loading"), [1])

    def test_what_may_be_needed_stays(self):
        self.assertEqual(self.pruned(0, "retired", "serving", "rejected", "loading"), [1])

    def test_fewer_than_are_kept(self):
        self.assertEqual(self.pruned(6, "retired", "retired", "retired", "serving"), [])


if __name__ == "__main__":
    unittest.main()
