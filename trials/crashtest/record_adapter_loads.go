package crashtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
)

// The route by which an engine is told to load an adapter, and the file of its weights.
const (
	loadPath    = "/v1/load_lora_adapter"
	weightsFile = "adapter_model.safetensors"
)

// load is the body of a request to load an adapter, which is gone when the answer comes.
type load struct {
	Name string `json:"lora_name"`
	Path string `json:"lora_path"`
}

type loadKey struct{}

func rememberLoad(req *http.Request) *http.Request {
	var l load
	body, err := io.ReadAll(req.Body)
	if err == nil {
		_ = json.Unmarshal(body, &l) // what is no such body loads nothing
	}
	req = req.WithContext(context.WithValue(req.Context(), loadKey{}, l))
	req.Body = io.NopCloser(bytes.NewReader(body))
	return req
}

func loadOf(req *http.Request) (name, path string) {
	l, _ := req.Context().Value(loadKey{}).(load)
	return l.Name, l.Path
}

// noteLoad reads the weights that an engine has just read.
func (r *recorder) noteLoad(engine int, name, path string) error {
	weights, err := os.ReadFile(filepath.Join(path, weightsFile))
	if err != nil {
		return fmt.Errorf("engine %d has loaded %s: %w", engine, name, err)
	}
	sum := sha256.Sum256(weights)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.loaded[engineAdapter{engine, name}] = hex.EncodeToString(sum[:])
	return nil
}

// ambiguous lists the names of adapters that answered with different weights.
func (r *recorder) ambiguous() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	for name, digests := range r.weights {
		if len(digests) > 1 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func digest(tokens []int32, logprobs []float32) [sha256.Size]byte {
	b := make([]byte, 0, 8*len(tokens))
	for _, t := range tokens {
		b = binary.LittleEndian.AppendUint32(b, uint32(t))
	}
	for _, p := range logprobs {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(p))
	}
	return sha256.Sum256(b)
}
