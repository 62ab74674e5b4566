package promptset

import (
	"encoding/json"
	"fmt"
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

// Dataset is a file of rows, and the order in which they are asked. Only where its rows begin is held, and found anew
// when the file was changed.
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

// parquetEnding is what the name of a Parquet file ends in; every other dataset has a JSON object a line.
const parquetEnding = ".parquet"

// CheckDataset reports why the path that an option has is not that of a dataset.
func CheckDataset(option, path string) error {
	const want = "a Parquet file, or one with a JSON object a line"
	switch ending := filepath.Ext(path); {
	case path == "":
		return fmt.Errorf("%s: is missing: %s, where workers see it", option, want)
	case ending != ".jsonl" && ending != parquetEnding:
		return fmt.Errorf("%s: %q does not end in .jsonl or %s: want %s", option, path, parquetEnding, want)
	}
	return nil
}

// Of is the row of a run's group, and where it is from: "line 3", or of a Parquet file "row 3". Each pass over the
// dataset has every row as often as it weighs, whatever dies meanwhile.
func (d *Dataset) Of(group rollout.GroupSeq) (row map[string]any, from string, err error) {
	n, err := d.count()
	if err != nil {
		return nil, "", err
	}
	pass, at := uint64(group)/uint64(n), uint64(group)%uint64(n)
	if *d.order.Shuffle {
		at = shuffled(at, uint64(n), d.order.Seed+pass)
	}
	return d.row(int(at))
}

// span is where a row is in the file.
type span struct {
	number   int   // of its line, or of it, from 1
	from, to int64 // of a line
	upto     int   // draws of a pass that are of this row or of one before it
}

// rowReader reads an open file.
type rowReader interface {
	// spans finds the rows.
	spans() ([]span, error)
	// read reads one; to read them in order is cheap.
	read(s span) (map[string]any, error)
}

// reader is what reads the file, and what it calls a row.
func (d *Dataset) reader(f *os.File, size int64) (r rowReader, unit string, err error) {
	if filepath.Ext(d.path) == parquetEnding {
		r, err = openParquet(f, size)
		return r, "row", err
	}
	return jsonLines{f}, "line", nil
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

// row reads the row of one draw, and says where it is from.
func (d *Dataset) row(at int) (row map[string]any, from string, err error) {
	d.mu.Lock()
	err = d.look()
	i := sort.Search(len(d.rows), func(i int) bool { return d.rows[i].upto > at })
	if err == nil && i == len(d.rows) {
		err = fmt.Errorf("dataset: %s has become shorter while it was read", d.path)
	}
	if err != nil {
		d.mu.Unlock()
		return nil, "", err
	}
	s, size := d.rows[i], d.size
	d.mu.Unlock()
	f, err := os.Open(d.path)
	if err != nil {
		return nil, "", fmt.Errorf("dataset: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	r, unit, err := d.reader(f, size)
	if err != nil {
		return nil, "", fmt.Errorf("dataset: read %s: %w", d.path, err)
	}
	from = fmt.Sprintf("%s %d", unit, s.number)
	if row, _, err = d.weighed(r, s); err != nil {
		err = fmt.Errorf("dataset: %s of %s: %w", from, d.path, err)
	}
	return row, from, err
}

// weighed reads a row, and how much it weighs.
func (d *Dataset) weighed(r rowReader, s span) (row map[string]any, weight int, err error) {
	row, err = r.read(s)
	if err != nil || d.order.Weight == "" || row[d.order.Weight] == nil {
		return row, 1, err
	}
	number, _ := row[d.order.Weight].(json.Number)
	if weight, err = strconv.Atoi(number.String()); err != nil || weight < 0 || weight > maxWeight {
		return nil, 1, fmt.Errorf("%s is no whole number from 0 to %d", d.order.Weight, maxWeight)
	}
	return row, weight, nil
}

// look finds the rows, if it has not or the file is another one.
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
	r, _, err := d.reader(f, info.Size())
	if err == nil {
		d.rows, err = r.spans()
	}
	if err != nil {
		return fmt.Errorf("dataset: read %s: %w", d.path, err)
	}
	upto := 0
	for i := range d.rows {
		weight := 1
		if d.order.Weight != "" {
			_, weight, _ = d.weighed(r, d.rows[i]) // a broken row says so once a pass
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

// tooLarge is why a row is refused.
func tooLarge(bytes int64) error {
	return fmt.Errorf("%d bytes; a row has at most %d", bytes, maxRowBytes)
}
