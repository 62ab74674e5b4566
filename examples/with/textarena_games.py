"""TextArena's tic-tac-toe for two and number guessing for one: what `make with PEER=textarena` runs."""

import stand
from millrace.env.adapters import textarena

tictactoe = textarena("TicTacToe-v0", max_tokens=8)
guess = textarena("GuessTheNumber-v0", max_tokens=8)

if __name__ == "__main__":
    print(stand.versions("textarena", "openai"))
    stand.play("arena-tictactoe", "textarena_games:tictactoe", ["O", "X"])
    stand.play("arena-guess", "textarena_games:guess")
