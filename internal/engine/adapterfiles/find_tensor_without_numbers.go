package adapterfiles

import (
	"context"
	"encoding/binary"
	"io"
	"maps"
	"slices"
)

// numberKinds are the kinds of numbers that weights are of, with their bytes, and the bits that are all set in a NaN
// and in an infinity alone.
var numberKinds = map[string]struct {
	bytes int
	mask  uint64
}{
	"F64": {8, 0x7ff << 52}, "F32": {4, 0xff << 23}, "F16": {2, 0x1f << 10}, "BF16": {2, 0xff << 7},
}

// withoutNumbers is the first tensor with a NaN or an infinity; empty: there is none. A vLLM that serves one answers
// status 400 to whoever asks for it, and looks broken to every run.
func withoutNumbers(ctx context.Context, weights io.ReaderAt) (string, error) {
	tensors, buffer := tensorsOf(weights), make([]byte, 1<<16)
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		t := tensors[name]
		kind, known := numberKinds[t.Kind]
		if !known {
			continue
		}
		values := io.NewSectionReader(weights, t.Offsets[0], t.Offsets[1]-t.Offsets[0])
		for {
			n, err := io.ReadFull(contextReader{ctx, values}, buffer)
			for at := 0; at+kind.bytes <= n; at += kind.bytes {
				if valueAt(buffer[at:], kind.bytes)&kind.mask == kind.mask {
					return name, nil
				}
			}
			if ctx.Err() != nil {
				return "", ctx.Err()
			}
			if err != nil { // the end; a file that is too short is for engines to judge
				break
			}
		}
	}
	return "", nil
}

func valueAt(b []byte, bytes int) uint64 {
	switch bytes {
	case 2:
		return uint64(binary.LittleEndian.Uint16(b))
	case 4:
		return uint64(binary.LittleEndian.Uint32(b))
	}
	return binary.LittleEndian.Uint64(b)
}
