"""PettingZoo's tic-tac-toe (agents in turn) and rock, paper, scissors (all at once): `make with PEER=pettingzoo`."""

import re

import stand
from millrace.env.adapters import pettingzoo

SQUARES = "Tic-tac-toe. Squares are 0 to 8, column by column. Yours: {}; the other's: {}; free: {}.\nYour square: "


def tictactoe_env():
    from pettingzoo.classic import tictactoe_v3

    return tictactoe_v3.env()


def board(agent: str, observation: dict, info: dict) -> str:
    mine, others = observation["observation"][..., 0].flatten(), observation["observation"][..., 1].flatten()
    places = [[n for n in range(9) if of[n]] for of in (mine, others, observation["action_mask"])]
    return SQUARES.format(*places)


def square(agent: str, text: str, observation: dict) -> int:
    """The square that is named; else a free one that follows from the text, for simulated engines know no squares."""
    free = [n for n in range(9) if observation["action_mask"][n]]
    named = re.search("[0-8]", text)
    return int(named[0]) if named and int(named[0]) in free else free[sum(text.encode()) % len(free)]


tictactoe = pettingzoo(tictactoe_env, board, square, max_tokens=4)

HANDS = ["rock", "paper", "scissors"]


def rps_env():
    from pettingzoo.classic import rps_v2

    return rps_v2.parallel_env(max_cycles=5)


def hands(agent: str, observation: int, info: dict) -> str:
    before = f"The other one's last was {HANDS[observation]}. " if observation < 3 else ""
    return f"{before}Rock, paper or scissors? "


def show(agent: str, text: str, observation: int) -> int:
    named = re.search("rock|paper|scissors", text.lower())
    return HANDS.index(named[0]) if named else sum(text.encode()) % 3


rps = pettingzoo(rps_env, hands, show, max_tokens=4)

if __name__ == "__main__":
    print(stand.versions("pettingzoo", "gymnasium", "pygame"))
    for name, agents in (("tictactoe", ["player_1", "player_2"]), ("rps", ["player_0", "player_1"])):
        got = stand.play(name, f"pettingzoo_games:{name}", agents)
        sums = {sum(rewards.values()) for rewards in got.values()}
        assert sums == {0.0}, f"games of two whose rewards do not cancel: {sums}"
