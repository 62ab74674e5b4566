package promptset

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// maxRowBytes bounds a row: it is the scenario of a group, which each of its games carries.
const maxRowBytes = 64 << 10

// maxWeight bounds how often a pass has a row.
const maxWeight = 1000

// Order is how a pass goes over the rows of a dataset.
type Order struct {
	// Shuffle says whether each pass has an order of its own, drawn from Seed; nil is yes.
	Shuffle *bool  `json:"shuffle"`
	Seed    uint64 `json:"seed"`
	// Weight is the rows' field that says how often a pass has a row; empty, or where a row lacks it: once.
	Weight string `json:"weight"`
}

// Complete puts in what is said by nothing.
func (o *Order) Complete() {
	if o.Shuffle == nil {
		o.Shuffle = new(true)
	}
}

// Dataset is a file with a JSON object a line, and the order in which its rows are asked. Only where its lines begin is
// held, and found anew when the file was changed.
type Dataset struct {
	path  string
	order Order

	mu       sync.Mutex
	size     int64
	modified time.Time
	rows     []span
}

// Rows is the dataset in a file, in a completed order.
func Rows(path string, order Order) *Dataset { return &Dataset{path: path, order: order} }

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

// Of is the row of a run's group, and its line: each pass over the dataset has every row as often as it weighs,
// whatever dies meanwhile.
func (d *Dataset) Of(group rollout.GroupSeq) (row map[string]any, line int, err error) {
	n, err := d.count()
	if err != nil {
		return nil, 0, err
	}
	pass, at := uint64(group)/uint64(n), uint64(group)%uint64(n)
	if *d.order.Shuffle {
		at = shuffled(at, uint64(n), d.order.Seed+pass)
	}
	return d.row(int(at))
}

// span is where a line is in the file.
type span struct {
	from, to int64
	line     int
	upto     int // draws of a pass that are of this row or of one before it
}

// count is how many draws a pass has, at least one: the rows' weights summed up.
func (d *Dataset) count() (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.look(); err != nil {
		return 0, err
	}
	return d.rows[len(d.rows)-1].upto, nil
}

// row reads the row of one draw, and says in which line it is.
func (d *Dataset) row(at int) (map[string]any, int, error) {
	d.mu.Lock()
	err := d.look()
	i := sort.Search(len(d.rows), func(i int) bool { return d.rows[i].upto > at })
	if err == nil && i == len(d.rows) {
		err = fmt.Errorf("dataset: %s has become shorter while it was read", d.path)
	}
	if err != nil {
		d.mu.Unlock()
		return nil, 0, err
	}
	s := d.rows[i]
	d.mu.Unlock()
	f, err := os.Open(d.path)
	if err != nil {
		return nil, s.line, fmt.Errorf("dataset: line %d: %w", s.line, err)
	}
	defer func() { _ = f.Close() }() // only read
	row, _, err := d.read(f, s)
	return row, s.line, err
}

// read reads the row of a line, and how much it weighs.
func (d *Dataset) read(f io.ReaderAt, s span) (row map[string]any, weight int, err error) {
	if s.to-s.from > maxRowBytes {
		return nil, 0, fmt.Errorf("dataset: line %d has %d bytes; a row has at most %d", s.line, s.to-s.from, maxRowBytes)
	}
	text := make([]byte, s.to-s.from)
	if _, err := f.ReadAt(text, s.from); err != nil {
		return nil, 0, fmt.Errorf("dataset: line %d: %w", s.line, err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	// What the line says is not repeated: the file may be another one than its owner thinks.
	if err := decoder.Decode(&row); err != nil || row == nil {
		return nil, 0, fmt.Errorf("dataset: line %d of %s is no JSON object", s.line, d.path)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, 0, fmt.Errorf("dataset: line %d of %s has more than a JSON object", s.line, d.path)
	}
	if d.order.Weight == "" || row[d.order.Weight] == nil {
		return row, 1, nil
	}
	number, _ := row[d.order.Weight].(json.Number)
	if weight, err = strconv.Atoi(number.String()); err != nil || weight < 0 || weight > maxWeight {
		return nil, 0, fmt.Errorf("dataset: line %d: %s is no whole number from 0 to %d", s.line, d.order.Weight, maxWeight)
	}
	return row, weight, nil
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
	upto := 0
	for i := range d.rows {
		weight := 1
		if d.order.Weight != "" {
			if _, w, err := d.read(f, d.rows[i]); err == nil { // a broken row says so once a pass
				weight = w
			}
		}
		upto += weight
		d.rows[i].upto = upto
	}
	if upto == 0 {
		d.rows = nil
		return fmt.Errorf("dataset: %s has no row, or none that weighs anything", d.path)
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
