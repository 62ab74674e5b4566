package demotrainer

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestSafetensorsRoundTrip(t *testing.T) {
	t.Parallel()
	tensors := []tensor{
		{"a.lora_A.weight", []int{2, 3}, []float32{1, -2, 0.5, 4, float32(math.Inf(1)), 1e-30}},
		{"empty", []int{0, 4}, []float32{}},
		{"scalar", []int{}, []float32{7}},
	}
	metadata := map[string]string{"format": "pt"}
	b, err := encodeSafetensors(tensors, metadata)
	if err != nil {
		t.Fatal(err)
	}
	if header := binary.LittleEndian.Uint64(b); header%8 != 0 || len(b) != int(8+header+4*7) {
		t.Errorf("header of %d bytes in a file of %d", header, len(b))
	}
	got, meta, err := decodeSafetensors(b)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, tensors) || !reflect.DeepEqual(meta, metadata) {
		t.Errorf("got %v %v", got, meta)
	}
}

func TestSafetensorsRefuses(t *testing.T) {
	t.Parallel()
	one := tensor{"a", []int{1}, []float32{1}}
	for name, tensors := range map[string][]tensor{
		"a name twice":              {one, one},
		"a shape that does not fit": {{"a", []int{2, 2}, []float32{1}}},
		"a negative shape":          {{"a", []int{-1, -1}, []float32{1}}},
		"the name of the metadata":  {{metadataKey, []int{1}, []float32{1}}},
	} {
		if _, err := encodeSafetensors(tensors, nil); err == nil {
			t.Errorf("%s was written", name)
		}
	}
}

// FuzzSafetensors holds the reader of these tests to its word, so that what it accepts is the format.
func FuzzSafetensors(f *testing.F) {
	b, err := encodeSafetensors([]tensor{{"a", []int{2}, []float32{1, 2}}}, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte{8, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		tensors, meta, err := decodeSafetensors(b)
		if err != nil {
			return
		}
		again, err := encodeSafetensors(tensors, meta)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := decodeSafetensors(again); err != nil {
			t.Fatal(err)
		}
	})
}

// decodeSafetensors reads what encodeSafetensors wrote, and refuses anything that is not exactly that format.
func decodeSafetensors(b []byte) ([]tensor, map[string]string, error) {
	if len(b) < 8 {
		return nil, nil, errors.New("safetensors: too short for a header")
	}
	length, rest := binary.LittleEndian.Uint64(b), b[8:]
	if length > uint64(len(rest)) {
		return nil, nil, fmt.Errorf("safetensors: header of %d bytes in a file of %d", length, len(b))
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(rest[:length], &raw); err != nil {
		return nil, nil, fmt.Errorf("safetensors header: %w", err)
	}
	data := rest[length:]
	metadata := map[string]string{}
	var tensors []tensor
	for name, text := range raw {
		if name == metadataKey {
			if err := json.Unmarshal(text, &metadata); err != nil {
				return nil, nil, fmt.Errorf("safetensors metadata: %w", err)
			}
			continue
		}
		t, err := decodeTensor(name, text, data)
		if err != nil {
			return nil, nil, fmt.Errorf("safetensors tensor %q: %w", name, err)
		}
		tensors = append(tensors, t)
	}
	slices.SortFunc(tensors, func(a, b tensor) int { return strings.Compare(a.name, b.name) })
	return tensors, metadata, nil
}

func decodeTensor(name string, text, data []byte) (tensor, error) {
	var e headerEntry
	if err := json.Unmarshal(text, &e); err != nil {
		return tensor{}, err
	}
	begin, end := e.Offsets[0], e.Offsets[1]
	switch {
	case e.DType != "F32":
		return tensor{}, fmt.Errorf("type %s", e.DType)
	case begin < 0 || end < begin || end > int64(len(data)):
		return tensor{}, fmt.Errorf("bytes %d to %d of %d", begin, end, len(data))
	case size(e.Shape) < 0 || int64(size(e.Shape))*4 != end-begin:
		return tensor{}, fmt.Errorf("shape %v in %d bytes", e.Shape, end-begin)
	}
	t := tensor{name: name, shape: e.Shape, values: make([]float32, 0, size(e.Shape))}
	for at := begin; at < end; at += 4 {
		t.values = append(t.values, math.Float32frombits(binary.LittleEndian.Uint32(data[at:])))
	}
	return t, nil
}
