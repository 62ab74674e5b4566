package adapterfiles

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"

	"github.com/millrace/millrace/internal/rollout"
)

// ProbesFile has an adapter's probes, beside its weights. A trainer writes it before it publishes.
const ProbesFile = "probes.json"

// Bounds of a file of probes.
const (
	maxProbes      = 16
	maxProbeTokens = 4096 // of all
	maxProbesBytes = 1 << 20
)

// Probe is a text and the log-probabilities, in nats at temperature 1, that the trainer's own forward passes give to
// its tokens from one on: with the adapter, without it, and with the version before.
type Probe struct {
	Tokens   []int32   `json:"tokens"`
	From     int       `json:"from"` // the first token that has a log-probability; at least 1
	Logprobs []float64 `json:"logprobs"`
	Base     []float64 `json:"base_logprobs,omitempty"`
	Previous []float64 `json:"previous_logprobs,omitempty"`
}

// Probes reads an adapter's probes; none, where it has none or its files are not to be seen here.
func (r *Reader) Probes(ctx context.Context, prefix, path string) ([]Probe, error) {
	if prefix == "" {
		return nil, nil
	}
	probes, err := readProbes(ctx, prefix, path)
	switch {
	case errors.Is(err, fs.ErrNotExist) || invisible(err):
		return nil, nil
	case err != nil:
		return nil, rollout.Fail(rollout.Permanent, rollout.CodeBadAdapter, fmt.Errorf("%s: %w", ProbesFile, err))
	}
	return probes, nil
}

func readProbes(ctx context.Context, prefix, path string) ([]Probe, error) {
	rel, err := filepath.Rel(filepath.Clean(prefix), filepath.Clean(path))
	if err != nil {
		return nil, err
	}
	dir, err := openConfined(prefix)
	if err != nil {
		return nil, err
	}
	defer dir.close()
	file, info, err := dir.open(filepath.Join(rel, ProbesFile))
	if err != nil {
		return nil, err
	}
	defer file.Close() // it is only read
	var text bytes.Buffer
	if err := readAll(ctx, &text, file, info, maxProbesBytes); err != nil {
		return nil, err
	}
	var found struct {
		Probes []Probe `json:"probes"`
	}
	if err := json.Unmarshal(text.Bytes(), &found); err != nil {
		return nil, err
	}
	return found.Probes, checkProbes(found.Probes)
}

// checkProbes refuses probes that say nothing.
func checkProbes(probes []Probe) error {
	if len(probes) == 0 || len(probes) > maxProbes {
		return fmt.Errorf("%d probes; want 1 to %d", len(probes), maxProbes)
	}
	tokens := 0
	for i, p := range probes {
		scored := len(p.Tokens) - p.From
		switch {
		case p.From < 1 || scored < 1:
			return fmt.Errorf("probe %d: from is %d of %d tokens; the first has no log-probability", i, p.From, len(p.Tokens))
		case len(p.Logprobs) != scored || len(p.Base) != 0 && len(p.Base) != scored ||
			len(p.Previous) != 0 && len(p.Previous) != scored:
			return fmt.Errorf("probe %d: %d, %d and %d log-probabilities for %d tokens", i, len(p.Logprobs), len(p.Base),
				len(p.Previous), scored)
		case slices.ContainsFunc(slices.Concat(p.Logprobs, p.Base, p.Previous), improper):
			return fmt.Errorf("probe %d: a log-probability is above 0 or no number", i)
		}
		tokens += len(p.Tokens)
	}
	if tokens > maxProbeTokens {
		return fmt.Errorf("%d tokens; want %d at most", tokens, maxProbeTokens)
	}
	return nil
}

func improper(logprob float64) bool {
	return math.IsNaN(logprob) || math.IsInf(logprob, 0) || logprob > 1e-3
}
