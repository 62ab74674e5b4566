package adapterfiles

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
)

// Inspection is what an adapter's files reveal before an engine has read them.
type Inspection struct {
	Digest string   `json:"digest,omitempty"` // of configuration and weights; empty where they cannot be seen from here
	Notes  []string `json:"notes,omitempty"`
}

// Inspect reads the adapter at path, which engines see under the same name, and refuses what vLLM would refuse
// after it has stalled for the attempt: each fault names what to change. Nothing outside of prefix is looked at.
// Files that this process cannot see are left to the engines, with a note.
func (r *Reader) Inspect(ctx context.Context, prefix, path string, rank int) (Inspection, error) {
	path, err := runspec.AdapterSpec{PathPrefix: prefix}.Clean(path)
	if err != nil {
		return Inspection{}, err
	}
	if prefix == "" {
		return Inspection{Notes: []string{
			"not inspected, and no digest: the run's spec names no adapters.path_prefix, below which workers may read",
		}}, nil
	}
	found, err := r.read(ctx, prefix, path)
	if invisible(err) {
		return Inspection{Notes: []string{
			fmt.Sprintf("not inspected, and no digest: this worker sees no adapter_config.json in %s; "+
				"the engines judge it when they load it", path),
		}}, nil
	}
	if err != nil {
		return Inspection{}, fmt.Errorf("inspect adapter: %w", err)
	}
	if err := checkConfig(found, rank); err != nil {
		return Inspection{}, rollout.Fail(rollout.Permanent, rollout.CodeBadAdapter, fmt.Errorf("adapter at %s: %w", path,
			err))
	}
	if found.digest == "" {
		return Inspection{}, noWeights(path)
	}
	return Inspection{Digest: found.digest}, nil
}

// invisible reports whether files cannot be seen from here, which says nothing about what engines see.
func invisible(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission)
}

func noWeights(path string) error {
	return rollout.Fail(rollout.Permanent, rollout.CodeAdapterMissing, fmt.Errorf(
		"adapter at %s: none of %s is there; publish when the weights are written", path, strings.Join(weightFiles, ", ")))
}

// checkConfig finds everything in PEFT's adapter_config.json that an engine would refuse, and tensors that are not of
// the rank that it says, or hold what is no number.
func checkConfig(found content, rank int) error {
	var cfg struct {
		Type    string          `json:"peft_type"`
		Rank    int             `json:"r"`
		Targets json.RawMessage `json:"target_modules"`
		Bias    string          `json:"bias"`
		DoRA    bool            `json:"use_dora"`
		Save    []string        `json:"modules_to_save"`
		Ranks   map[string]int  `json:"rank_pattern"`
	}
	if err := json.Unmarshal(found.config, &cfg); err != nil {
		return fmt.Errorf("adapter_config.json: %w", err)
	}
	var faults []error
	fault := func(when bool, format string, args ...any) {
		if when {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	highest := cfg.Rank
	for _, r := range cfg.Ranks {
		highest = max(highest, r)
	}
	fault(cfg.Type != "" && cfg.Type != "LORA", "peft_type is %s: vLLM serves LoRA adapters only", cfg.Type)
	fault(cfg.Rank < 1, "r is %d: it must be at least 1", cfg.Rank)
	fault(rank > 0 && highest > rank, "rank %d is above adapters.rank, which is %d: train with r=%d, "+
		"or start the engines with --max-lora-rank %d and set adapters.rank to it", highest, rank, rank, roundRank(highest))
	fault(noTargets(cfg.Targets),
		"target_modules names no module: list those that were trained, such as q_proj and v_proj")
	fault(cfg.DoRA, "use_dora is true: vLLM serves no DoRA adapters; train with use_dora=False")
	fault(cfg.Bias != "" && cfg.Bias != "none", "bias is %q: vLLM serves no LoRA bias; train with bias=\"none\"", cfg.Bias)
	fault(len(cfg.Save) > 0,
		"modules_to_save is %s: vLLM serves no fully trained modules; train with modules_to_save=None",
		strings.Join(cfg.Save, ", "))
	fault(found.broken != "", "%s holds a NaN or an infinity: go back to weights from before the step, and lower its "+
		"learning rate", found.broken)
	for _, name := range slices.Sorted(maps.Keys(found.tensors)) {
		shape := found.tensors[name].Shape
		if is, of := rankOf(name, shape); of && is != cfg.Rank && len(cfg.Ranks) == 0 {
			fault(true, "%s has shape %v, and adapter_config.json says r=%d: write both from the same model", name,
				shape, cfg.Rank)
			break
		}
	}
	return errors.Join(faults...)
}

// rankOf is the rank that a tensor's shape says, if it is one of LoRA's: A is [rank, in], B is [out, rank].
func rankOf(name string, shape []int) (rank int, of bool) {
	switch {
	case len(shape) != 2:
		return 0, false
	case strings.HasSuffix(name, ".lora_A.weight"):
		return shape[0], true
	case strings.HasSuffix(name, ".lora_B.weight"):
		return shape[1], true
	}
	return 0, false
}

// noTargets reports whether target_modules, a list of names or one pattern, is empty.
func noTargets(raw json.RawMessage) bool {
	var list []string
	var pattern string
	if json.Unmarshal(raw, &list) == nil {
		return len(list) == 0
	}
	return json.Unmarshal(raw, &pattern) != nil || pattern == ""
}

// roundRank is the smallest value that --max-lora-rank takes for a rank.
func roundRank(rank int) int {
	for _, r := range []int{1, 8, 16, 32, 64, 128, 256, 320, 512} {
		if r >= rank {
			return r
		}
	}
	return rank
}
