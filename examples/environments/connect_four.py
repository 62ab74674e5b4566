"""Connect Four for two players, as an OpenEnv server: pip install openenv==0.10.0; uvicorn connect_four:app."""

from typing import Any

from openenv.core.env_server import Action, Environment, Observation, State, create_fastapi_app


class Drop(Action):
    column: int

class Board(Observation):
    board: str
    legal_actions: list[int]
    current_player_id: int

class ConnectFour(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True
    state: State = State()

    def reset(self, seed: int | None = None, episode_id: str | None = None, **_: Any) -> Board:
        self.columns, self.state = [""] * 7, State(episode_id=episode_id, step_count=0)
        return self.seen(won=False)

    def step(self, action: Drop, timeout_s: float | None = None, **_: Any) -> Board:
        x, y, mark = action.column, len(self.columns[action.column]), "XO"[self.state.step_count % 2]
        self.columns[x] += mark
        self.state.step_count += 1
        lines = [[self.at(x + k * dx, y + k * dy) for k in range(-3, 4)] for dx, dy in [(1, 0), (0, 1), (1, 1), (1, -1)]]
        return self.seen(won=any(4 * mark in "".join(line) for line in lines))

    def at(self, x: int, y: int) -> str:
        return self.columns[x][y] if 0 <= x < 7 and 0 <= y < len(self.columns[x]) else "."

    def seen(self, won: bool) -> Board:
        rows = ["".join(self.at(x, y) for x in range(7)) for y in range(5, -1, -1)]
        legal = [x for x in range(7) if len(self.columns[x]) < 6]
        return Board(board="\n".join(rows), legal_actions=legal, current_player_id=self.state.step_count % 2,
                     reward=float(won), done=won or not legal)

app = create_fastapi_app(ConnectFour, Drop, Board, max_concurrent_envs=1024)
