"""A real batch as Tinker's Datums and back: what `make with PEER=tinker` runs. No Tinker server is asked."""

from typing import Any

import stand
from millrace.rows import merge_turns
from millrace.tinker import datums


def main() -> None:
    print(stand.versions("tinker"))
    run = stand.start("datums", {"kind": "tictactoe"}, steps=1)
    with run.step(run.attach().next_step) as step:
        rows = merge_turns(step.sequences())
        made: list[Any] = datums(step.sequences())
    assert len(made) == len(rows) > 0
    for row, datum in zip(rows, made, strict=True):
        given = {name: list(tensor.tolist()) for name, tensor in datum.loss_fn_inputs.items()}
        ids = datum.model_input.to_ints()
        assert ids[:1] + given["target_tokens"] == row["token_ids"] and ids == row["token_ids"][:-1]
        said = [n for n, mask in enumerate(row["loss_mask"][1:]) if mask]
        assert all(abs(given["logprobs"][n] - row["logprobs"][n + 1]) < 1e-5 for n in range(len(ids)))
        assert all(abs(given["advantages"][n] - row["advantage"] * (n in said)) < 1e-5 for n in range(len(ids)))
    print(f"{len(made)} Datums, {sum(len(row['token_ids']) for row in rows)} tokens: the batch, shifted by one")


if __name__ == "__main__":
    main()
