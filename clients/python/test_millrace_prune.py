"""Tests of Run.prune_adapters, against answers as the service gives them."""

import os
import tempfile
import unittest

import millrace


class Answers(millrace.Client):
    """A client whose service lists these policies and evaluations."""

    def __init__(self, policies, evaluations):
        super().__init__("http://127.0.0.1:9")
        self.listed = {"policies": policies, "evaluations": evaluations}

    def call(self, method, path, *_args):
        what = path.rsplit("/", 1)[1]
        assert (method, path) == ("GET", "/v1/runs/demo/" + what), path
        return {what: self.listed[what]}


class Prune(unittest.TestCase):
    def pruned(self, keep, *states, evaluations=lambda paths: []):
        """The versions that are deleted, of versions 1 to n in these states, and of an adapter of somebody else's."""
        with tempfile.TemporaryDirectory() as prefix, tempfile.TemporaryDirectory() as elsewhere:
            paths = [os.path.join(prefix, "v%d" % version) for version in range(1, 1 + len(states))]
            for path in paths:
                os.mkdir(path)
            policies = [{"version": v, "path": p, "state": s} for v, (p, s) in enumerate(zip(paths, states, strict=True), 1)]
            policies.append({"version": 0, "path": elsewhere, "state": "retired"})
            run = Answers(policies, evaluations(paths)).run("demo", 1)
            run.spec = {"adapters": {"path_prefix": prefix}}
            gone = run.prune_adapters(keep)
            self.assertTrue(os.path.isdir(elsewhere), "nothing outside of the run's prefix is deleted")
            self.assertEqual(gone, [path for path in paths if not os.path.isdir(path)])
            return [paths.index(path) + 1 for path in gone]

    def test_the_newest_retired_versions_stay(self):
        self.assertEqual(self.pruned(2, "retired", "retired", "retired", "serving", "loading"), [1])

    def test_what_may_be_needed_stays(self):
        self.assertEqual(self.pruned(0, "retired", "serving", "rejected", "loading"), [1])

    def test_what_an_evaluation_plays_with_stays_until_it_is_over(self):
        def evaluations(paths):
            return [
                {"state": "running", "path": paths[0], "opponent_paths": [paths[1]]},
                {"state": "completed", "path": paths[2]},
                {"state": "running"},
            ]

        self.assertEqual(self.pruned(0, "retired", "retired", "retired", evaluations=evaluations), [3])

    def test_the_best_stay(self):
        def evaluations(paths):
            return [{"state": "completed", "path": path, "kept": path == paths[1]} for path in paths]

        self.assertEqual(self.pruned(0, "retired", "retired", "retired", evaluations=evaluations), [1, 3])

    def test_fewer_than_are_kept(self):
        self.assertEqual(self.pruned(6, "retired", "retired", "retired", "serving"), [])


if __name__ == "__main__":
    unittest.main()
