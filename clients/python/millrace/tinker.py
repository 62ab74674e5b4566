"""A run is trained by Tinker's API, whichever server speaks it.

    client.forward_backward(datums(step.sequences()), loss_fn="importance_sampling").result()
    client.optim_step(types.AdamParams(learning_rate=1e-4)).result()
    saved = client.save_weights_for_sampler(name=f"step{step.number}").result().path
    step.publish(adapter(service, saved, step.adapter_dir()))

Tried with the SDK 0.38.0 and, with a server, 0.25.0: servers pin others.
"""

from __future__ import annotations

import json
import os
import shutil
import tarfile
import urllib.request
from typing import Any, Dict, Iterable, List

from . import Invalid
from .rows import merge_turns


def datums(rows: Iterable[Dict[str, Any]]) -> List[Any]:
    """A tinker.Datum for each sequence (Step.sequences), turns that continue one another as one.

    Token i + 1 is the target of token i; logprobs and advantages are those of the target, and both are 0 on what the
    model did not say. importance_sampling, ppo and cispo read them so, and sum over tokens: normalise the advantages
    (millrace.rows.advantages, loss_weights) as your recipe wants it.
    """
    from tinker import types

    out = []
    for row in merge_turns(rows):
        mask = row["loss_mask"][1:]
        inputs = {
            "target_tokens": row["token_ids"][1:],
            "logprobs": [float(logprob) for logprob in row["logprobs"][1:]],
            "advantages": [row["advantage"] * said for said in map(float, mask)],
        }
        out.append(types.Datum(model_input=types.ModelInput.from_ints(row["token_ids"][:-1]), loss_fn_inputs=inputs))
    return out


def adapter(service: Any, checkpoint: str, into: str) -> str:
    """Writes the adapter that save_weights_for_sampler has saved into a new directory, and answers it.

    service is the tinker.ServiceClient, checkpoint the path that was answered. Invalid: the archive holds no adapter.
    """
    # The SDK's own reading of the path wants sampler_weights/ in it, which SkyRL's server leaves out.
    training_run, _, name = checkpoint.removeprefix("tinker://").partition("/")
    url = service.create_rest_client().get_checkpoint_archive_url(training_run, name).result().url
    os.makedirs(into)
    with urllib.request.urlopen(url) as answer, tarfile.open(fileobj=answer, mode="r|*") as archive:
        for member in archive:
            _write(archive, member, into)
    if not os.path.exists(os.path.join(into, "adapter_config.json")):
        raise Invalid("the archive of %s has no adapter_config.json, but %s" % (checkpoint, sorted(os.listdir(into))))
    _name_modules(into)
    return into


def _write(archive: tarfile.TarFile, member: tarfile.TarInfo, into: str) -> None:
    """Writes a file of an archive, whoever made it, below a directory. Older Pythons have no filter that would do it."""
    path = os.path.normpath(member.name)
    if member.isdir():
        return
    data = archive.extractfile(member) if member.isfile() else None
    if data is None or os.path.isabs(path) or path.split(os.sep)[0] == os.pardir:
        raise Invalid("the archive has %s, which is no file of an adapter" % member.name)
    os.makedirs(os.path.dirname(os.path.join(into, path)), exist_ok=True)
    with open(os.path.join(into, path), "wb") as file:
        shutil.copyfileobj(data, file)


def _name_modules(adapter: str) -> None:
    """Says in the adapter's config which modules were trained, where the server has not: SkyRL's leaves it null."""
    path = os.path.join(adapter, "adapter_config.json")
    with open(path) as file:
        config = json.load(file)
    if config.get("target_modules") is not None:
        return
    with open(os.path.join(adapter, "adapter_model.safetensors"), "rb") as file:
        names = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    config["target_modules"] = sorted({name.split(".lora_")[0].rpartition(".")[2] for name in names if ".lora_" in name})
    with open(path, "w") as file:
        json.dump(config, file, indent=2)
