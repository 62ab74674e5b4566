"""saturation.py DIR: what one run's diagnosis predicted of two changes, and what the runs with these changes then gave.

A run's step is the mean of its steps once the prefill is used up and while groups are still launched: not the first two depths
of steps, not the last depth, and whole periods of an oscillation that repeats with the depth. Exit code 1 if the diagnosis does
not say that the engines are the limit, if it advises a change that does not help, or if a step is neither within the interval
that was predicted nor within 10 % of the number.
"""

from __future__ import annotations

import gzip
import json
import pathlib
import sys
from typing import Any

BOUND = 0.10
HELPS = 0.05  # a step that is shorter by less is the same step


def step_seconds(path: pathlib.Path, depth: int) -> float:
    """The mean step of a run's record, in seconds."""
    with gzip.open(path) as file:
        steps: list[dict[str, Any]] = json.load(file)["steps"]
    walls = [step["trainer"]["wall_seconds"] for step in steps][2 * depth : -depth]
    walls = walls[: len(walls) - len(walls) % depth]
    return sum(walls) / len(walls)


def main(folder: pathlib.Path) -> int:
    diagnosis = json.loads((folder / "one" / "diagnosis.json").read_text())
    predicted = {what["change"]: what for what in diagnosis.get("what_ifs") or []}
    now = step_seconds(folder / "one" / "record.json.gz", 2)
    wrong = []
    if diagnosis["causes"][0]["cause"] != "throughput":
        wrong.append(f"first cause: {diagnosis['causes'][0]['cause']}, not throughput")
    print(f"{'':<14}  {'predicted':>9}  {'90 % interval':<13}  {'advice':<13}  {'the run gave':>12}  {'off by':>7}")
    print(f"{'as it is':<14}  {'':>9}  {'':<13}  {'':<13}  {now:>10.2f} s")
    for change, name, depth in (("engines 1 -> 2", "two-engines", 2), ("depth 2 -> 4", "depth-4", 4)):
        gave = step_seconds(folder / name / "record.json.gz", depth)
        if change not in predicted:
            wrong.append(f"{change}: nothing predicted")
            print(f"{change:<14}  {'-':>9}  {'':<13}  {'':<13}  {gave:>10.2f} s")
            continue
        what = predicted[change]
        said, outcome, low, high = what["step_seconds"], what["outcome"], what["low_seconds"], what["high_seconds"]
        off, interval = said / gave - 1, f"{low:.2f} - {high:.2f} s"
        advice = outcome.replace("_", " ")
        print(f"{change:<14}  {said:>7.2f} s  {interval:<13}  {advice:<13}  {gave:>10.2f} s  {off:>+7.1%}")
        if abs(off) > BOUND and not low <= gave <= high:
            wrong.append(f"{change}: {off:+.1%} off, more than {BOUND:.0%}")
        if outcome == "helps" and gave > now * (1 - HELPS):
            wrong.append(f"{change}: advised, and gave {gave:.2f} s after {now:.2f} s")
    for line in wrong:
        print("WRONG  " + line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
