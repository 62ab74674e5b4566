// Package adapterfiles reads the files of LoRA adapters before any engine does: it refuses what vLLM would refuse, and
// takes a digest by which a change after the publication is noticed. It reads nothing
// outside of the prefix that the run's spec names. Start reading at Reader.
package adapterfiles
