"""Tic-tac-toe for two learners, as millrace.env plays it: millrace-env serve tictactoe:tictactoe --run RUN.

It is the game of kind: tictactoe, word for word, and shows what an environment of several agents is in Python. The run's
agents are X and O: environment: {kind: external, agents: [X, O]}.
"""

from __future__ import annotations

from typing import Any

from millrace.env import Answer, Done, Scenario, environment

LINES = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]
SQUARES = [column + row for row in "321" for column in "abc"]
RULES = (
    "Tic-tac-toe. Players X and O mark one free square in turn; three marks in a row, column or diagonal win.\n"
    "Squares are named by column a-c and row 1-3. Answer with the name of one free square.\n\n"
)


@environment
class tictactoe:
    def reset(self, scenario: Scenario) -> Any:
        self.board, self.player = ["."] * 9, "X"
        return self.prompt()

    def prompt(self) -> Any:
        rows = "".join(f"{3 - row} {' '.join(self.board[3 * row:3 * row + 3])}\n" for row in range(3))
        text = f"{RULES}{rows}  a b c\n\nYou are {self.player}. Your move: "
        return {self.player: {"prompt": text, "max_tokens": 4}}

    def step(self, answers: dict[str, Answer]) -> Any:
        said = answers[self.player].text.strip().lower()
        free = [at for at in range(9) if self.board[at] == "."]
        at = SQUARES.index(said) if said in SQUARES and SQUARES.index(said) in free else free[0]
        self.board[at] = self.player
        if any(self.board[a] == self.board[b] == self.board[c] != "." for a, b, c in LINES):
            return Done({"X": float(self.player == "X"), "O": float(self.player == "O")})
        if len(free) == 1:
            return Done(0.5)
        self.player = "O" if self.player == "X" else "X"
        return self.prompt()
