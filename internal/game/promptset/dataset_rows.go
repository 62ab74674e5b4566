package promptset

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// maxRowBytes bounds a row: it is the scenario of a group, which each of its games carries.
const maxRowBytes = 64 << 10

// Dataset is a file with a JSON object a line, and the order in which its rows are asked. Only where its lines begin is
// held, and found anew when the file was changed.
type Dataset struct {
	path    string
	shuffle bool
	seed    uint64

	mu       sync.Mutex
	size     int64
	modified time.Time
	rows     []span
}

// Rows is the dataset in a file. With shuffle each pass over it has an order of its own, drawn from seed.
func Rows(path string, shuffle bool, seed uint64) *Dataset {
	return &Dataset{path: path, shuffle: shuffle, seed: seed}
}

// CheckDataset reports why the path that an option has is not that of a dataset.
func CheckDataset(option, path string) error {
	switch {
	case path == "":
		return fmt.Errorf("%s: is missing: a file with a JSON object a line, where workers see it", option)
	case filepath.Ext(path) != ".jsonl":
		return fmt.Errorf("%s: %q does not end in .jsonl: want a file with a JSON object a line", option, path)
	}
	return nil
}

// Of is the row of a run's group, and its line: each pass over the dataset has every row once, whatever dies meanwhile.
func (d *Dataset) Of(group rollout.GroupSeq) (row map[string]any, line int, err error) {
	n, err := d.count()
	if err != nil {
		return nil, 0, err
	}
	pass, at := uint64(group)/uint64(n), uint64(group)%uint64(n)
	if d.shuffle {
		at = shuffled(at, uint64(n), d.seed+pass)
	}
	return d.row(int(at))
}

// span is where a line is in the file.
type span struct {
	from, to int64
	line     int
}

// count is how many rows there are, at least one.
func (d *Dataset) count() (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.look()
	return len(d.rows), err
}

// row reads one row, and says in which line it is.
func (d *Dataset) row(at int) (map[string]any, int, error) {
	d.mu.Lock()
	err := d.look()
	if err == nil && at >= len(d.rows) {
		err = fmt.Errorf("dataset: %s has become shorter while it was read", d.path)
	}
	if err != nil {
		d.mu.Unlock()
		return nil, 0, err
	}
	s := d.rows[at]
	d.mu.Unlock()
	if s.to-s.from > maxRowBytes {
		return nil, s.line, fmt.Errorf("dataset: line %d has %d bytes; a row has at most %d", s.line, s.to-s.from,
			maxRowBytes)
	}
	text := make([]byte, s.to-s.from)
	f, err := os.Open(d.path)
	if err == nil {
		_, err = f.ReadAt(text, s.from)
		_ = f.Close() // only read
	}
	if err != nil {
		return nil, s.line, fmt.Errorf("dataset: line %d: %w", s.line, err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var row map[string]any
	// What the line says is not repeated: the file may be another one than its owner thinks.
	if err := decoder.Decode(&row); err != nil || row == nil {
		return nil, s.line, fmt.Errorf("dataset: line %d of %s is no JSON object", s.line, d.path)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, s.line, fmt.Errorf("dataset: line %d of %s has more than a JSON object", s.line, d.path)
	}
	return row, s.line, nil
}

// look finds the lines, if it has not or the file is another one.
func (d *Dataset) look() error {
	info, err := os.Stat(d.path)
	switch {
	case err != nil:
		return fmt.Errorf("dataset: %w: every worker must see it under this path", err)
	case !info.Mode().IsRegular():
		return fmt.Errorf("dataset: %s is no file", d.path)
	case d.rows != nil && info.Size() == d.size && info.ModTime().Equal(d.modified):
		return nil
	}
	f, err := os.Open(d.path)
	if err != nil {
		return fmt.Errorf("dataset: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	if d.rows, err = lines(f); err != nil {
		return fmt.Errorf("dataset: read %s: %w", d.path, err)
	}
	if len(d.rows) == 0 {
		return fmt.Errorf("dataset: %s has no row", d.path)
	}
	d.size, d.modified = info.Size(), info.ModTime()
	return nil
}

// lines finds the lines that are not blank, however long they are.
func lines(r io.Reader) (rows []span, err error) {
	block := make([]byte, 1<<20)
	var at int64
	now, blank := span{line: 1}, true
	end := func() {
		if now.to = at; !blank {
			rows = append(rows, now)
		}
		now, blank = span{from: at + 1, line: now.line + 1}, true
	}
	for {
		n, err := r.Read(block)
		for _, c := range block[:n] {
			switch c {
			case '\n':
				end()
			case ' ', '\t', '\r':
			default:
				blank = false
			}
			at++
		}
		if errors.Is(err, io.EOF) {
			end()
			return rows, nil
		}
		if err != nil {
			return nil, err
		}
	}
}
