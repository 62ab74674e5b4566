package trainer

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// checkpoints stands for a trainer's saved weights: it remembers how many steps they have learned from. Each
// process saves under a generation of its own, and the latest one counts: what a process saves that was replaced,
// and does not know it yet, is no successor's weights.
type checkpoints struct {
	path  string // of this process; empty: none is kept
	every int64  // steps
}

type saved struct {
	NextStep int64 `json:"next_step"` // first step not in the weights
}

// openCheckpoints answers the first step that the weights saved last have not learned from, 0 in an empty folder, and
// begins a generation with them. Without a folder nothing is kept, and the step is nil.
func openCheckpoints(dir string, every int) (checkpoints, *int64, error) {
	if dir == "" {
		return checkpoints{}, nil, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return checkpoints{}, nil, fmt.Errorf("checkpoint folder: %w", err)
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.json")) // sorted
	if err != nil {
		return checkpoints{}, nil, fmt.Errorf("checkpoint folder: %w", err)
	}
	var last saved
	generation := 0
	if n := len(names); n > 0 {
		if _, err := fmt.Sscanf(filepath.Base(names[n-1]), "%d.json", &generation); err != nil {
			return checkpoints{}, nil, fmt.Errorf("checkpoint %s: %w", names[n-1], err)
		}
		text, err := os.ReadFile(names[n-1])
		if err == nil {
			err = json.Unmarshal(text, &last)
		}
		if err != nil {
			return checkpoints{}, nil, fmt.Errorf("read checkpoint %s: %w", names[n-1], err)
		}
	}
	c := checkpoints{filepath.Join(dir, fmt.Sprintf("%09d.json", generation+1)), int64(max(every, 1))}
	return c, &last.NextStep, c.write(last)
}

func (c checkpoints) kept() bool { return c.path != "" }

// save is called after every recorded step, never before: a run cannot be resumed from a step that it has not reached.
// The last step is always saved, so that nothing goes back behind the end of a run.
func (c checkpoints) save(next, steps int64) error {
	if !c.kept() || next%c.every != 0 && next != steps {
		return nil
	}
	return c.write(saved{next})
}

func (c checkpoints) write(s saved) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	tmp := c.path + ".new" // nobody else's: the generation is this process's
	if err := os.WriteFile(tmp, text, 0o644); err != nil {
		return fmt.Errorf("save checkpoint: %w", err)
	}
	if err := os.Rename(tmp, c.path); err != nil {
		return fmt.Errorf("save checkpoint: %w", err)
	}
	return nil
}
