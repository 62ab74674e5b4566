"""OpenEnv's server of Connect Four, played by a run: what `make with PEER=openenv` runs. The environment's server is killed,
too, and started again."""

import pathlib
import socket
import subprocess
import sys
import threading
import time

import stand

HERE = pathlib.Path(__file__).parents[1] / "environments"


def serve(port: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "uvicorn", "connect_four:app", "--port", str(port), "--log-level", "warning"]
    return subprocess.Popen(command, cwd=HERE)


def main() -> None:
    print(stand.versions("openenv"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    servers = [serve(port)]

    def again() -> None:
        time.sleep(1)
        servers[-1].kill()
        servers[-1].wait()
        print("killed -9: the OpenEnv server")
        servers.append(serve(port))

    environment = {
        "kind": "openenv", "urls": [f"http://127.0.0.1:{port}"], "choices": "legal_actions",
        "template": "Connect Four. You are player {current_player_id}; 0 has X.\n{board}\nYour column:",
        "action": {"column": "{answer}"},
    }
    run = stand.start("connect-four", environment, max_tokens=4)
    killer = threading.Timer(12, again)
    killer.start()
    try:
        got = stand.train(run)
        killer.join()
    finally:
        for server in servers:
            server.kill()
    assert all(set(rewards.values()) <= {0.0, 1.0} and sum(rewards.values()) <= 1 for rewards in got.values()), got
    print(f"{len(got)} games, {sum(sum(rewards.values()) for rewards in got.values()):.0f} of them won by somebody")


if __name__ == "__main__":
    main()
