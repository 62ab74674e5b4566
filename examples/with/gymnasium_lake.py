"""Gymnasium's frozen lake and blackjack, played by a run: what `make with PEER=gymnasium` runs."""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import stand
from millrace.env.adapters import gymnasium

MOVES = {"left": 0, "down": 1, "right": 2, "up": 3}
MAP = "A frozen lake of 4 by 4 fields, 0 to 15 row by row. The goal is 15; 5, 7, 11 and 12 are holes.\n"


def where(observation: int, info: dict) -> str:
    return f"{MAP}You stand on {observation}. Answer left, down, right or up: "


def move(text: str) -> int:
    """The first move in the text; else one that follows from it, for simulated engines do not speak English."""
    named = re.search("|".join(MOVES), text)
    return MOVES[named[0]] if named else sum(text.encode()) % 4


lake = gymnasium("FrozenLake-v1", where, move, max_tokens=4, is_slippery=False)


def hand(observation: tuple, info: dict) -> list:
    mine, dealers, ace = observation
    text = f"Blackjack. You have {mine}{', with an ace that counts 11' if ace else ''}; the dealer shows {dealers}. Hit or stick?"
    return [{"role": "user", "content": text}]


def hit(text: str) -> int:
    return int("hit" in text.lower() if re.search("hit|stick", text.lower()) else sum(text.encode()) % 2)


blackjack = gymnasium("Blackjack-v1", hand, hit, max_tokens=4)



def written_project() -> None:
    """What `millrace-env init --style gymnasium` writes passes its own tests."""
    folder = tempfile.mkdtemp(prefix="millrace-with-")
    init = [sys.executable, "-m", "millrace.env", "init", "my_lake", "--style", "gymnasium"]
    subprocess.run(init, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    subprocess.run([sys.executable, "-m", "unittest", "-q"], cwd=Path(folder) / "my_lake", check=True)


if __name__ == "__main__":
    print(stand.versions("gymnasium", "numpy"))
    written_project()
    stand.play("lake", "gymnasium_lake:lake")
    rewards = [r["agent"] for r in stand.play("blackjack", "gymnasium_lake:blackjack").values()]
    print(f"blackjack: mean reward {sum(rewards) / len(rewards):.2f}")
