"""Connect Four for two players, as an OpenEnv server: pip install openenv==0.10.0; python connect_four.py [PORT]."""

import sys

import uvicorn
from openenv.core.env_server import Action, Environment, Observation, State, create_fastapi_app

ROWS, COLUMNS = 6, 7


class Drop(Action):
    column: int


class Board(Observation):
    board: str
    legal_actions: list[int]
    current_player_id: int


class ConnectFour(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def reset(self, seed=None, episode_id=None, **_) -> Board:
        self.columns, self.state_ = [[] for _ in range(COLUMNS)], State(episode_id=episode_id, step_count=0)
        return self.seen(False)

    def step(self, action: Drop, timeout_s=None, **_) -> Board:
        mark = "XO"[self.state_.step_count % 2]
        self.columns[action.column].append(mark)
        self.state_.step_count += 1
        return self.seen(self.wins(action.column, len(self.columns[action.column]) - 1, mark))

    def wins(self, x: int, y: int, mark: str) -> bool:
        at = lambda x, y: 0 <= x < COLUMNS and 0 <= y < len(self.columns[x]) and self.columns[x][y] == mark
        lines = [(1, 0), (0, 1), (1, 1), (1, -1)]
        runs = [[at(x + k * dx, y + k * dy) for k in range(first, first + 4)] for dx, dy in lines for first in range(-3, 1)]
        return any(all(run) for run in runs)

    def seen(self, won: bool) -> Board:
        rows = ["".join(c[y] if y < len(c) else "." for c in self.columns) for y in reversed(range(ROWS))]
        legal = [x for x, c in enumerate(self.columns) if len(c) < ROWS]
        turn = self.state_.step_count % 2
        return Board(board="\n".join(rows), legal_actions=legal, current_player_id=turn, reward=float(won), done=won or not legal)

    @property
    def state(self) -> State:
        return self.state_


if __name__ == "__main__":
    app = create_fastapi_app(ConnectFour, Drop, Board, max_concurrent_envs=1024)
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]) if len(sys.argv) > 1 else 8000, log_level="warning")
