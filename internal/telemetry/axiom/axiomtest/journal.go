package axiomtest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// journal keeps what the fake was given across its own ends: rows in one file, each before its request is answered, and
// all else in another, which is replaced at every change.
type journal struct {
	rows  *os.File
	state string // path
}

// savedRow is a row with its dataset.
type savedRow struct {
	Dataset string         `json:"dataset"`
	Row     map[string]any `json:"row"`
}

// savedState is all that is no row.
type savedState struct {
	Datasets    []savedDataset   `json:"datasets"`
	Annotations []annotation     `json:"annotations"`
	Monitors    []map[string]any `json:"monitors"`
	Notifiers   []map[string]any `json:"notifiers"`
	Dashboards  []*dashboard     `json:"dashboards"`
	Created     int              `json:"created"`
}

type savedDataset struct {
	Name          string    `json:"name"`
	Description   string    `json:"description"`
	Created       time.Time `json:"created"`
	RetentionDays int       `json:"retention_days"`
	MapFields     []string  `json:"map_fields"`
}

// Keep makes the fake keep all that it is given in a folder, and begin with what is there.
func (s *Server) Keep(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	path := filepath.Join(dir, "rows.ndjson")
	if err := s.restore(filepath.Join(dir, "state.json"), path); err != nil {
		return fmt.Errorf("read what the fake Axiom kept in %s: %w", dir, err)
	}
	rows, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	s.keep = &journal{rows: rows, state: filepath.Join(dir, "state.json")}
	return nil
}

func (s *Server) restore(state, rows string) error {
	s.names() // makes the datasets that are there from the start
	text, err := os.ReadFile(state)
	switch {
	case err == nil:
		var saved savedState
		if err := json.Unmarshal(text, &saved); err != nil {
			return err
		}
		for _, d := range saved.Datasets {
			back := newDataset(d.Name, d.Created)
			back.description, back.retentionDays = d.Description, d.RetentionDays
			if err := back.declare(d.MapFields); err != nil {
				return err
			}
			s.datasets[d.Name] = back
		}
		s.annotations, s.monitors, s.notifiers = saved.Annotations, saved.Monitors, saved.Notifiers
		s.dashboards, s.created = saved.Dashboards, saved.Created
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	f, err := os.Open(rows)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close() // it is only read
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 64<<20)
	limits := s.Limits.withDefaults()
	for lines.Scan() {
		var saved savedRow
		// The last line may be cut off by a kill: its request was not answered.
		if json.Unmarshal(lines.Bytes(), &saved) != nil || s.datasets[saved.Dataset] == nil {
			continue
		}
		for _, name := range []string{"_time", "_sysTime"} {
			text, _ := saved.Row[name].(string)
			at, _ := time.Parse(time.RFC3339Nano, text)
			saved.Row[name] = at
		}
		s.datasets[saved.Dataset].take(saved.Row, limits)
	}
	return lines.Err()
}

// events keeps rows before they are acknowledged.
func (j *journal) events(dataset string, rows []map[string]any) error {
	if j == nil {
		return nil
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	for _, row := range rows {
		if err := encoder.Encode(savedRow{dataset, row}); err != nil {
			return err
		}
	}
	_, err := j.rows.Write(text.Bytes())
	return err
}

// changed keeps all that is no row. A state that cannot be written is lost with the process: the fake goes on.
func (s *Server) changed() {
	if s.keep == nil {
		return
	}
	saved := savedState{Annotations: s.annotations, Monitors: s.monitors, Notifiers: s.notifiers,
		Dashboards: s.dashboards, Created: s.created}
	for _, name := range s.names() {
		d := s.datasets[name]
		saved.Datasets = append(saved.Datasets, savedDataset{name, d.description, d.created, d.retentionDays, d.mapFields})
	}
	text, err := json.Marshal(saved)
	if err != nil {
		return
	}
	if os.WriteFile(s.keep.state+".new", text, 0o644) == nil {
		_ = os.Rename(s.keep.state+".new", s.keep.state)
	}
}
