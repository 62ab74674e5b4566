"""One line about a trainer's steps, on stderr: rewritten on a terminal, a line for each step elsewhere.

    step 4 of 20: waited 3.1 s, trained 12.0 s, reward 0.412, 4 min left
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any, Dict, TextIO

from .metrics import StepView


class Progress:
    """The line of a run of so many steps (0: it is not known). `out` is sys.stderr, if none is given."""

    def __init__(self, steps: int, out: TextIO | None = None) -> None:
        self.steps, self.out = steps, out or sys.stderr
        self._terminal = self.out.isatty()
        self._seen, self._seconds = 0, 0.0  # steps that were put, and their time

    def put(self, record: Dict[str, Any]) -> None:
        """Shows a step by the service's record of it. A trainer that measured no phase "train" trained while it did not wait."""
        step = StepView(record)
        self._seen, self._seconds = self._seen + 1, self._seconds + step.step_time
        wait = float(step.phases.get("wait", 0.0))
        said = [f"waited {wait:.1f} s", f"trained {float(step.phases.get('train', step.wall - wait)):.1f} s"]
        reward, left = step.reward_mean(), self.steps - step.step - 1
        if reward is not None:
            said.append(f"reward {reward:.3f}")
        if left > 0:  # the first wait fills the buffer; it does not come again, and is not in step_time
            said.append(duration(left * self._seconds / self._seen) + " left")
        line = f"step {step.step + 1}{f' of {self.steps}' if self.steps else ''}: {', '.join(said)}"
        self._write(f"\r\x1b[K{line}" if self._terminal else line + "\n")

    def close(self) -> None:
        """Leaves the terminal's line as it is, and goes to the next."""
        if self._terminal and self._seen:
            self._write("\n")

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # nobody reads any more: no reason to end a trainer
            self.out.write(text)
            self.out.flush()


def duration(seconds: float) -> str:
    """Seconds as somebody who waits says them: 48 s, 12 min, 3 h 20 min."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
