# prepare.sh: sourced by run.sh and saturation.sh. Installs vLLM into $bin/vllm (once) and makes the model in $models.
# Needs $here, the folder of these scripts, and $bin; the repository's root is the working directory.

source "$here/install_once.sh"
models=$bin/vllm-model
"$bin/vllm/bin/python" "$here/model.py" "$models" internal/game/diplomacyenv/testdata/*.txt
