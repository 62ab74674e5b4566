"""The picture of what learn.py saw, as SVG and by hand: panels, no library."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

WIDTH, HEIGHT, LEFT, TOP = 460, 230, 46, 30
COLOURS = ["#2563eb", "#d97706", "#6b7280", "#059669"]
Runs = dict[tuple[int, str], list[dict[str, Any]]]


class Shown(NamedTuple):
    """A figure of each game, made of its reward, that has a panel."""

    title: str
    value: Callable[[float], float]
    range: tuple[float, float]


class Panel:
    """Axes at a place of the picture, and what is drawn in them."""

    def __init__(self, column: int, row: int, title: str, x: tuple[float, float], y: tuple[float, float], below: str) -> None:
        self.x0, self.y0 = 20 + column * (WIDTH + 70) + LEFT, 20 + row * (HEIGHT + 80) + TOP
        self.x, self.y = x, (y[0], y[1] if y[1] > y[0] else y[0] + 1)
        self.marks = [f'<text x="{self.x0}" y="{self.y0 - 12}" class="t">{title}</text>']
        for i in range(5):
            value = self.y[0] + (self.y[1] - self.y[0]) * i / 4
            self.marks.append(f'<path d="M{self.x0} {self.v(value):.1f}h{WIDTH}" class="g"/>')
            self.marks.append(f'<text x="{self.x0 - 6}" y="{self.v(value) + 4:.1f}" text-anchor="end">{value:.3g}</text>')
            at = x[0] + (x[1] - x[0]) * i / 4
            self.marks.append(f'<text x="{self.h(at):.1f}" y="{self.y0 + HEIGHT + 16}" text-anchor="middle">{at:.0f}</text>')
        self.marks.append(f'<text x="{self.x0 + WIDTH}" y="{self.y0 + HEIGHT + 32}" text-anchor="end">{below}</text>')

    def h(self, x: float) -> float:
        return self.x0 + WIDTH * (x - self.x[0]) / max(self.x[1] - self.x[0], 1e-9)

    def v(self, y: float) -> float:
        return self.y0 + HEIGHT * (1 - (y - self.y[0]) / (self.y[1] - self.y[0]))

    def line(self, points: list[tuple[float, float]], colour: str) -> None:
        path = " ".join(f"{self.h(x):.1f},{self.v(y):.1f}" for x, y in points)
        self.marks.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')

    def band(self, lows: list[tuple[float, float]], highs: list[tuple[float, float]], colour: str) -> None:
        path = " ".join(f"{self.h(x):.1f},{self.v(y):.1f}" for x, y in lows + highs[::-1])
        self.marks.append(f'<polygon points="{path}" fill="{colour}" opacity="0.15"/>')

    def legend(self, names: list[str]) -> None:
        for i, name in enumerate(names):
            at = self.x0 + WIDTH - 70 * (len(names) - i)
            self.marks.append(f'<text x="{at}" y="{self.y0 - 12}" fill="{COLOURS[i]}" class="k">{name}</text>')


def by_version(runs: Runs, arm: str, value: Callable[[float], float], width: int) -> list[tuple[float, float, float]]:
    """Mean and 95 % half-width of a value of the games, by the version that played them, `width` versions together."""
    games: dict[int, list[float]] = {}
    for (_, of), steps in runs.items():
        for step in steps if of == arm else []:
            for version, reward in step["games"]:
                games.setdefault(version // width, []).append(value(reward))
    out = []
    for version, values in sorted(games.items()):
        mean = sum(values) / len(values)
        variance = sum((v - mean) ** 2 for v in values) / max(len(values) - 1, 1)
        out.append(((version + 0.5) * width, mean, 1.96 * math.sqrt(variance / len(values))))
    return out


def curves(panel: Panel, runs: Runs, arms: list[str], value: Callable[[float], float]) -> None:
    for arm, colour in zip(arms, COLOURS, strict=False):
        points = by_version(runs, arm, value, 2)
        panel.band([(x, y - e) for x, y, e in points], [(x, y + e) for x, y, e in points], colour)
        panel.line([(x, y) for x, y, _ in points], colour)
    panel.legend(arms)


def picture(runs: Runs, arms: list[str], shown: list[Shown]) -> str:
    steps = max(len(of) for of in runs.values())
    panels = []
    for at, one in enumerate(shown):
        panels.append(Panel(at % 2, at // 2, one.title, (0, steps), one.range, "policy version; bands: 95 %"))
        curves(panels[-1], runs, arms, one.value)
    places = [(at % 2, at // 2) for at in (len(shown), len(shown) + 1)]
    names = ["wait", "load", "train", "publish"]
    sums = [[0.0] * (len(names) + 1) for _ in range(steps)]
    for at in range(steps):
        mine = [run[at] for run in runs.values() if at < len(run)]
        for i, name in enumerate(names):
            sums[at][i + 1] = sums[at][i] + sum(s["phases"].get(name, 0.0) for s in mine) / len(mine)
    time = Panel(*places[0], "seconds of a step", (0, steps), (0, max(s[-1] for s in sums)), "step; mean of all runs")
    for i in range(len(names)):
        lows, highs = ([(at, s[k]) for at, s in enumerate(sums)] for k in (i, i + 1))
        time.band(lows, highs, COLOURS[i])
        time.line(highs, COLOURS[i])
    time.legend(names)
    behind = Panel(*places[1], "versions behind", (0, steps), (0, 3), "step; mean of the batch")
    for arm, colour in zip(arms, COLOURS, strict=False):
        points = []
        for at in range(steps):
            ages = [at - v for (_, of), run in runs.items() if of == arm and at < len(run) for v, _ in run[at]["games"]]
            if ages:
                points.append((at, sum(ages) / len(ages)))
        behind.line(points, colour)
    behind.legend(arms)
    marks = "\n".join(mark for panel in (*panels, time, behind) for mark in panel.marks)
    size = f"{2 * (WIDTH + 70) + 40} {2 * (HEIGHT + 80) + 20}"
    style = "text{font:12px sans-serif;fill:#444} .t{font-weight:bold} .g{stroke:#ddd} .k{fill:inherit}"
    keys = " ".join(f'[fill="{c}"].k{{fill:{c}}}' for c in COLOURS)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}"><style>{style} {keys}</style>'
            f'<rect width="100%" height="100%" fill="#fff"/>\n{marks}\n</svg>\n')  # fmt: skip
