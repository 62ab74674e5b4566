"""Connect Four for two players, as an OpenEnv server: pip install openenv==0.10.0; python connect_four.py [PORT]."""

import sys
from typing import Any

import uvicorn
from openenv.core.env_server import Action, Environment, Observation, State, create_fastapi_app

ROWS, COLUMNS = 6, 7
LINES = [(1, 0), (0, 1), (1, 1), (1, -1)]


class Drop(Action):
    column: int


class Board(Observation):
    board: str
    legal_actions: list[int]
    current_player_id: int


class ConnectFour(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def reset(self, seed: int | None = None, episode_id: str | None = None, **_: Any) -> Board:
        self.columns: list[str] = [""] * COLUMNS
        self._state = State(episode_id=episode_id, step_count=0)
        return self.seen(won=False)

    def step(self, action: Drop, timeout_s: float | None = None, **_: Any) -> Board:
        x, mark = action.column, "XO"[self._state.step_count % 2]
        self.columns[x] += mark
        self._state.step_count += 1
        return self.seen(won=any(self.four(x, len(self.columns[x]) - 1, *line, mark) for line in LINES))

    def four(self, x: int, y: int, dx: int, dy: int, mark: str) -> bool:
        run = "".join(self.at(x + k * dx, y + k * dy) for k in range(-3, 4))
        return 4 * mark in run

    def at(self, x: int, y: int) -> str:
        return self.columns[x][y] if 0 <= x < COLUMNS and 0 <= y < len(self.columns[x]) else "."

    def seen(self, won: bool) -> Board:
        rows = ["".join(self.at(x, y) for x in range(COLUMNS)) for y in reversed(range(ROWS))]
        legal = [x for x, column in enumerate(self.columns) if len(column) < ROWS]
        return Board(
            board="\n".join(rows),
            legal_actions=legal,
            current_player_id=self._state.step_count % 2,
            reward=float(won),
            done=won or not legal,
        )

    @property
    def state(self) -> State:
        return self._state


if __name__ == "__main__":
    app = create_fastapi_app(ConnectFour, Drop, Board, max_concurrent_envs=1024)
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]) if len(sys.argv) > 1 else 8000, log_level="warning")
