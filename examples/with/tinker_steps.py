"""Real steps of SkyRL's Tinker server, on its JAX backend, with a tiny Qwen3 on CPUs: what `make with PEER=skyrl` runs.

As with TRL the engines are simulated, and what is shown is the path: a batch as Datums in, an adapter out of the archive.
"""

import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

STEPS, SAMPLES, GROUPS = 3, 4, 2


def serve(model: str, folder: str, port: int) -> None:
    """The server, whose engine is started by this Python: it would start it by `uv run` from a checkout of SkyRL."""
    import uvicorn
    from skyrl.tinker import api
    from skyrl.tinker.config import EngineConfig, config_to_argv

    api._build_uv_run_cmd_engine = lambda parent, config: [sys.executable, "-m", "skyrl.tinker.engine", *config_to_argv(config)]
    api.app.state.engine_config = EngineConfig(
        base_model=model, backend="jax", backend_config={"max_lora_adapters": 2, "max_lora_rank": 8},
        checkpoints_base=folder + "/checkpoints", database_url=f"sqlite:///{folder}/tinker.db")
    uvicorn.run(api.app, host="127.0.0.1", port=port, log_level="warning")


def started(model: str, folder: str) -> tuple["subprocess.Popen[bytes]", str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, __file__, model, folder, str(port)],
                               env=dict(os.environ, JAX_PLATFORMS="cpu"), stdout=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    while True:
        try:
            urllib.request.urlopen(url + "/api/v1/healthz").close()
            return process, url
        except urllib.error.URLError:
            if process.poll() is not None:
                raise SystemExit("SkyRL's server has ended") from None
            time.sleep(0.5)


def main() -> None:
    import numpy as np
    import tinker
    from safetensors.numpy import load_file
    from tinker import types

    import stand
    import trl_tiny
    from millrace.rows import merge_turns
    from millrace.tinker import adapter, datums

    print(stand.versions("skyrl", "tinker", "jax"))
    folder = tempfile.mkdtemp(prefix="millrace-with-")
    model = folder + "/model"
    trl_tiny.model().save_pretrained(model)
    trl_tiny.tokenizer().save_pretrained(model)
    server, url = started(model, folder)
    run = stand.start("steps", steps=STEPS, samples=SAMPLES, groups=GROUPS, adapters={"rank": 8, "path_prefix": folder})
    process, journal = stand.serve("trl_vowels:vowels", "steps")
    got: dict[str, dict[str, float]] = {}
    try:
        service = tinker.ServiceClient(base_url=url, api_key="tml-none")
        client = service.create_lora_training_client(base_model=model, rank=8)
        before: dict[str, Any] = {}
        for step in run.steps():
            with step:
                rows = merge_turns(step.sequences())
                for row in rows:
                    game = "-".join(row["trajectory_id"].split("/")[1:3])
                    assert game not in got, f"game {game} came twice"
                    got[game] = {"agent": row["reward"]}
                if step.number == 0:
                    threading.Thread(target=stand.kill_server_and_worker).start()
                with step.phase("train"):
                    output = client.forward_backward(datums(rows), "importance_sampling").result()
                    client.optim_step(types.AdamParams(learning_rate=1e-2)).result()
                    saved = client.save_weights_for_sampler(name=f"step{step.number}").result().path
                lengths = [len(told["logprobs"].data) for told in output.loss_fn_outputs]
                assert lengths == [len(row["token_ids"]) - 1 for row in rows], "a logprob for each target"
                path = adapter(service, saved, step.adapter_dir())
                weights = load_file(Path(path) / "adapter_model.safetensors")
                trained = [name for name in weights if "lora_B" in name]  # those begin with 0
                moved = sum(float(np.abs(weights[name] - before.get(name, 0)).sum()) for name in trained)
                assert moved > 0, "the adapter has not moved"
                before = weights
                step.publish(path)
                print(f"step {step.number}: {sum(lengths)} targets; the adapter's {len(trained)} B moved by {moved:.3f}")
        if code := process.wait(60):
            raise SystemExit(f"millrace-env has ended with {code}")
    finally:
        process.terminate()
        server.terminate()
        server.wait()
    status = run.status()
    print(f"SkyRL trained {STEPS} steps on {len(got)} games; the run is {status['state']}, at policy version "
          f"{status['policy_version']}")
    assert status["policy_version"] == STEPS and len(got) == STEPS * SAMPLES * GROUPS
    stand.compare(got, journal)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        serve(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    else:
        main()
