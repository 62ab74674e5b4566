package adapterfiles

import (
	"encoding/binary"
	"encoding/json"
	"io"
)

// maxShapesBytes bounds the header of a file of tensors.
const maxShapesBytes = 8 << 20

// shapesOf reads the shapes of tensors, by name; nil where the file is no safetensors file, which engines judge.
func shapesOf(weights io.ReaderAt) map[string][]int {
	var length [8]byte
	if _, err := weights.ReadAt(length[:], 0); err != nil {
		return nil
	}
	size := binary.LittleEndian.Uint64(length[:])
	if size > maxShapesBytes {
		return nil
	}
	var tensors map[string]struct{ Shape []int }
	if json.NewDecoder(io.NewSectionReader(weights, 8, int64(size))).Decode(&tensors) != nil {
		return nil
	}
	shapes := make(map[string][]int, len(tensors))
	for name, tensor := range tensors {
		shapes[name] = tensor.Shape
	}
	return shapes
}
