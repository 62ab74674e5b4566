package adapterfiles

import (
	"encoding/binary"
	"encoding/json"
	"io"
)

// maxShapesBytes bounds the header of a file of tensors.
const maxShapesBytes = 8 << 20

// tensor is what a safetensors file says of a tensor.
type tensor struct {
	Kind    string   `json:"dtype"`
	Shape   []int    `json:"shape"`
	Offsets [2]int64 `json:"data_offsets"` // of its first byte and after its last, in the file
}

// tensorsOf reads what there is of tensors, by name; nil where the file is no safetensors file, which engines judge.
func tensorsOf(weights io.ReaderAt) map[string]tensor {
	var length [8]byte
	if _, err := weights.ReadAt(length[:], 0); err != nil {
		return nil
	}
	size := binary.LittleEndian.Uint64(length[:])
	if size > maxShapesBytes {
		return nil
	}
	var tensors map[string]tensor
	if json.NewDecoder(io.NewSectionReader(weights, 8, int64(size))).Decode(&tensors) != nil {
		return nil
	}
	for name, t := range tensors {
		t.Offsets[0] += 8 + int64(size)
		t.Offsets[1] += 8 + int64(size)
		tensors[name] = t
	}
	return tensors
}
