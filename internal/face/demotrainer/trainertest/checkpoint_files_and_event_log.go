// Package trainertest is for trials of trainers that are killed: checkpoints that outlive a process, and a log of what
// the server granted and refused.
package trainertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/millrace/millrace/internal/face/demotrainer"
)

// checkpoints remembers how many steps the weights have learned from. Each process saves under its own generation, and
// the latest one counts. So what a replaced process saves, before it knows, never becomes its successor's weights.
type checkpoints struct {
	path   string // of this process
	every  int64  // steps
	resume int64
}

type saved struct {
	NextStep int64 `json:"next_step"` // first step not in the weights
}

// OpenCheckpoints begins a generation with the weights saved last in a folder. An empty folder is untrained weights.
func OpenCheckpoints(dir string, every int) (demotrainer.Checkpoints, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("checkpoint folder: %w", err)
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.json")) // sorted
	if err != nil {
		return nil, fmt.Errorf("checkpoint folder: %w", err)
	}
	var last saved
	generation := 0
	if n := len(names); n > 0 {
		if _, err := fmt.Sscanf(filepath.Base(names[n-1]), "%d.json", &generation); err != nil {
			return nil, fmt.Errorf("checkpoint %s: %w", names[n-1], err)
		}
		text, err := os.ReadFile(names[n-1])
		if err == nil {
			err = json.Unmarshal(text, &last)
		}
		if err != nil {
			return nil, fmt.Errorf("read checkpoint %s: %w", names[n-1], err)
		}
	}
	c := checkpoints{filepath.Join(dir, fmt.Sprintf("%09d.json", generation+1)), int64(max(every, 1)), last.NextStep}
	return c, c.write(last)
}

// Resume is the first step that the weights saved last have not learned from.
func (c checkpoints) Resume() int64 { return c.resume }

// Save saves the weights as often as is wanted. The last step is always saved, so that nothing goes back behind the end
// of a run.
func (c checkpoints) Save(next, steps int64) error {
	if next%c.every != 0 && next != steps {
		return nil
	}
	return c.write(saved{next})
}

func (c checkpoints) write(s saved) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	tmp := c.path + ".new" // not shared: the generation is this process's
	if err := os.WriteFile(tmp, text, 0o644); err != nil {
		return fmt.Errorf("save checkpoint: %w", err)
	}
	if err := os.Rename(tmp, c.path); err != nil {
		return fmt.Errorf("save checkpoint: %w", err)
	}
	return nil
}

// Log appends what a trainer hears to a file, a line each.
func Log(path string) func(demotrainer.Event) error {
	return func(e demotrainer.Event) error {
		text, err := json.Marshal(e)
		if err != nil {
			return err
		}
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		_, err = f.Write(append(text, '\n')) // one write: a killed process leaves whole lines
		return errors.Join(err, f.Close())
	}
}
