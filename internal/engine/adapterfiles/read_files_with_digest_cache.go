package adapterfiles

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// Reader reads the files of adapters and remembers their digests for as long as they look the same, so that a digest
// may be asked for before every load. It may be used by several goroutines; a nil one remembers nothing.
type Reader struct {
	hashing chan struct{} // how many digests are taken at once

	mu    sync.Mutex
	known map[string]digested // by the adapter's path
}

// Bounds of what is read and remembered.
const (
	maxConfigBytes  = 1 << 20  // far more than PEFT writes
	maxWeightsBytes = 32 << 30 // rank 512 of every matrix of a model of 70 billion parameters, in 32 bits
	maxHashing      = 2        // of a worker's cores, whoever publishes
	maxKnown        = 1024
)

// NewReader makes a Reader that remembers nothing yet.
func NewReader() *Reader {
	return &Reader{hashing: make(chan struct{}, maxHashing), known: map[string]digested{}}
}

// content is an adapter's files.
type content struct {
	config  []byte
	digest  string            // of configuration and weights; empty: there are no weights
	broken  string            // a tensor with a NaN or an infinity; empty: none is known
	tensors map[string]tensor // where the file tells
}

// digested is a digest, with the state of the files when it was taken.
type digested struct {
	config, weights fs.FileInfo
	at              time.Time
	digest, broken  string
}

// weightFiles are the names under which vLLM finds weights, in its order.
var weightFiles = []string{"adapter_model.safetensors", "adapter_model.bin", "adapter_model.pt"}

// read reads the configuration of the adapter at path, below prefix, and takes its digest, if the files are not those
// of last time.
func (r *Reader) read(ctx context.Context, prefix, path string) (content, error) {
	rel, err := filepath.Rel(filepath.Clean(prefix), filepath.Clean(path))
	if err != nil {
		return content{}, err
	}
	dir, err := openConfined(prefix)
	if err != nil {
		return content{}, err
	}
	defer dir.close()
	file, info, err := dir.open(filepath.Join(rel, "adapter_config.json"))
	if err != nil {
		return content{}, err
	}
	defer file.Close() // it is only read
	var config bytes.Buffer
	if err := readAll(ctx, &config, file, info, maxConfigBytes); err != nil {
		return content{}, fmt.Errorf("adapter_config.json: %w", err)
	}
	weights, seen, err := openWeights(dir, rel)
	if weights == nil || err != nil {
		return content{config: config.Bytes()}, err
	}
	defer weights.Close()
	of, err := r.digest(ctx, path, config.Bytes(), info, weights, seen)
	return content{config.Bytes(), of.digest, of.broken, tensorsOf(weights)}, err
}

// openWeights opens the first of the weights that vLLM looks for; nil: there are none.
func openWeights(dir *confinedDir, rel string) (*os.File, fs.FileInfo, error) {
	for _, name := range weightFiles {
		f, info, err := dir.open(filepath.Join(rel, name))
		if !errors.Is(err, fs.ErrNotExist) {
			return f, info, err
		}
	}
	return nil, nil, nil
}

func (r *Reader) digest(
	ctx context.Context, path string, config []byte, configInfo fs.FileInfo, weights *os.File, info fs.FileInfo,
) (digested, error) {
	if r == nil {
		r = NewReader()
	}
	if old, ok := r.remembered(path); ok && old.stillOf(configInfo, info) {
		return old, nil
	}
	select {
	case r.hashing <- struct{}{}:
		defer func() { <-r.hashing }()
	case <-ctx.Done():
		return digested{}, ctx.Err()
	}
	now := digested{config: configInfo, weights: info, at: time.Now()}
	hash := sha256.New()
	hash.Write(config)
	if err := readAll(ctx, hash, weights, info, maxWeightsBytes); err != nil {
		return digested{}, fmt.Errorf("digest of adapter: %w", err)
	}
	now.digest = "sha256:" + hex.EncodeToString(hash.Sum(nil))
	var err error
	if now.broken, err = withoutNumbers(ctx, weights); err != nil {
		return digested{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.known) >= maxKnown {
		clear(r.known)
	}
	r.known[path] = now
	return now, nil
}

func (r *Reader) remembered(path string) (digested, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d, ok := r.known[path]
	return d, ok
}

// stillOf reports whether the files are those that the digest was taken of.
func (d digested) stillOf(config, weights fs.FileInfo) bool {
	return d.unchanged(d.config, config) && d.unchanged(d.weights, weights)
}

// unchanged reports whether a file is as it was earlier. One that was written shortly before it was read may have been
// written again since, without a trace in its time.
func (d digested) unchanged(was, is fs.FileInfo) bool {
	tick := 50 * time.Millisecond
	if was.ModTime().Nanosecond() == 0 { // a file system that keeps whole seconds
		tick = 2 * time.Second
	}
	same := os.SameFile(was, is) && was.Size() == is.Size() && was.ModTime().Equal(is.ModTime())
	changed := statusChanged(was)
	return same && changed.Equal(statusChanged(is)) && d.at.Sub(was.ModTime()) > tick && d.at.Sub(changed) > tick
}

// readAll reads a file of at most most bytes into w, until ctx is done.
func readAll(ctx context.Context, w io.Writer, f *os.File, info fs.FileInfo, most int64) error {
	if info.Size() > most {
		return rollout.Fail(rollout.Permanent, rollout.CodeBadAdapter,
			fmt.Errorf("%s has %d MiB; %d MiB is the most", f.Name(), info.Size()>>20, most>>20))
	}
	n, err := io.Copy(w, contextReader{ctx, io.LimitReader(f, info.Size()+1)})
	if err == nil && n != info.Size() {
		err = rollout.Fail(rollout.Permanent, rollout.CodeBadAdapter,
			fmt.Errorf("%s is still being written; publish when that is done", f.Name()))
	}
	return err
}

// contextReader reads until its context is done.
type contextReader struct {
	ctx context.Context
	io.Reader
}

func (r contextReader) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(b)
}
