package demotrainer

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
)

// tensor is a named array of float32 in row-major order.
type tensor struct {
	name   string
	shape  []int
	values []float32
}

// headerEntry describes one tensor in a safetensors header.
type headerEntry struct {
	DType   string   `json:"dtype"`
	Shape   []int    `json:"shape"`
	Offsets [2]int64 `json:"data_offsets"` // from the end of the header
}

// metadataKey is the one name in the header that is no tensor's.
const metadataKey = "__metadata__"

// encodeSafetensors writes the safetensors format: the header's length as eight bytes, little-endian; a JSON
// object, padded with spaces to a multiple of eight; then the tensors' bytes, without gaps.
func encodeSafetensors(tensors []tensor, metadata map[string]string) ([]byte, error) {
	tensors = slices.Clone(tensors)
	slices.SortFunc(tensors, func(a, b tensor) int { return strings.Compare(a.name, b.name) })
	header := map[string]any{metadataKey: metadata}
	var data []byte
	for _, t := range tensors {
		if _, taken := header[t.name]; taken {
			return nil, fmt.Errorf("tensor %q: the name is taken", t.name)
		}
		if size(t.shape) != len(t.values) {
			return nil, fmt.Errorf("tensor %q: shape %v does not hold %d values", t.name, t.shape, len(t.values))
		}
		begin := int64(len(data))
		for _, v := range t.values {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
		}
		header[t.name] = headerEntry{"F32", t.shape, [2]int64{begin, int64(len(data))}}
	}
	text, err := json.Marshal(header)
	if err != nil {
		return nil, err
	}
	for len(text)%8 != 0 {
		text = append(text, ' ')
	}
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(text)))
	return append(append(out, text...), data...), nil
}

// size is the number of values of a shape; -1 if it is none.
func size(shape []int) int {
	n := 1
	for _, d := range shape {
		if d < 0 || d > math.MaxInt32 || n > math.MaxInt32/max(d, 1) {
			return -1
		}
		n *= d
	}
	return n
}
