package demotrainer

import (
	"encoding/json"
	"fmt"
	"os"
)

// journal is a file of JSON lines that shows what was trained on, a line per step, to check that nothing was trained on
// twice. A line is written before the step is recorded: a step that was repeated after a restart has two lines, with
// the same trajectories.
type journal struct{ file *os.File }

// openJournal appends to the file; an empty path keeps no journal.
func openJournal(path string) (*journal, error) {
	if path == "" {
		return &journal{}, nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	return &journal{f}, nil
}

// Close closes the file.
func (j *journal) Close() error {
	if j.file == nil {
		return nil
	}
	return j.file.Close()
}

// entry is one line of the journal.
type entry struct {
	Step         int64    `json:"step"`
	Generation   int64    `json:"generation"`
	Version      int64    `json:"policy_version"` // that came of the step
	WallSec      float64  `json:"wall_seconds"`   // as in the record that follows
	Groups       []int64  `json:"groups"`
	Trajectories []string `json:"trajectories"`
}

func entryOf(step, version int64, r report, b *batch) entry {
	e := entry{Step: step, Generation: r.Generation, Version: version, WallSec: r.WallSec}
	for _, g := range b.Groups {
		e.Groups = append(e.Groups, g.Ref.Seq)
		for i := range g.Trajectories {
			e.Trajectories = append(e.Trajectories, g.Trajectories[i].ID)
		}
	}
	return e
}

func (j *journal) write(line any) error {
	if j.file == nil {
		return nil
	}
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	if _, err := j.file.Write(append(text, '\n')); err != nil { // one write: a killed process leaves whole lines
		return fmt.Errorf("write journal: %w", err)
	}
	return nil
}
