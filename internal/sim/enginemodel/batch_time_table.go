package enginemodel

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// TableTime is a batch time that was measured at some batch sizes and lengths, and lies on straight lines between them.
type TableTime struct {
	name, source string
	sizes, longs []int       // ascending
	seconds      [][]float64 // by size, then length
	clamp        bool
}

// Columns of a table. Programs that measure such tables name them differently.
var (
	sizeColumns   = []string{"batch_size"}
	longColumns   = []string{"longest_tokens", "max_seq_len"}
	secondColumns = []string{"seconds", "mean_latency_sec"}
)

const sourceMark = "# source:"

// ReadTableTime reads a CSV file with the columns batch_size, longest_tokens (or max_seq_len) and seconds (or
// mean_latency_sec); others are left alone. Every size must have every length. A comment line before the header,
// "# source: ...", must say where the numbers come from. Name is what errors call the file.
func ReadTableTime(name string, r io.Reader) (*TableTime, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	t := &TableTime{name: name, source: sourceOf(text)}
	if t.source == "" {
		return nil, fmt.Errorf("%s:1: no source: begin the file with a line %q that says how and on what the times were "+
			"measured", name, sourceMark+" ...")
	}
	rows, err := readTimes(name, text)
	if err != nil {
		return nil, err
	}
	return t, t.fill(rows)
}

func sourceOf(text []byte) string {
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		if !bytes.HasPrefix(line, []byte("#")) {
			return ""
		}
		if source, ok := bytes.CutPrefix(line, []byte(sourceMark)); ok {
			return string(bytes.TrimSpace(source))
		}
	}
	return ""
}

// measured is one row of a table.
type measured struct {
	size, long int
	seconds    float64
	line       int
}

func readTimes(name string, text []byte) ([]measured, error) {
	r := csv.NewReader(bytes.NewReader(text))
	r.Comment = '#'
	r.TrimLeadingSpace = true
	header, err := r.Read()
	if err != nil {
		return nil, fmt.Errorf("%s: no header: want the columns %s, %s and %s", name, sizeColumns[0], longColumns[0],
			secondColumns[0])
	}
	var at [3]int
	for i, names := range [][]string{sizeColumns, longColumns, secondColumns} {
		if at[i] = column(header, names); at[i] < 0 {
			line, _ := r.FieldPos(0)
			return nil, fmt.Errorf("%s:%d: no column %s among %s", name, line, strings.Join(names, " or "),
				strings.Join(header, ", "))
		}
	}
	var rows []measured
	for {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		m, err := readTime(record, at)
		m.line, _ = r.FieldPos(0)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, m.line, err)
		}
		rows = append(rows, m)
	}
}

func column(header, names []string) int {
	return slices.IndexFunc(header, func(h string) bool { return slices.Contains(names, strings.TrimSpace(h)) })
}

func readTime(record []string, at [3]int) (m measured, err error) {
	if m.size, err = strconv.Atoi(record[at[0]]); err != nil || m.size < 1 {
		return m, fmt.Errorf("batch size %q: want a whole number of at least 1", record[at[0]])
	}
	if m.long, err = strconv.Atoi(record[at[1]]); err != nil || m.long < 1 {
		return m, fmt.Errorf("length %q: want a whole number of tokens of at least 1", record[at[1]])
	}
	m.seconds, err = strconv.ParseFloat(record[at[2]], 64)
	if err != nil || !(m.seconds > 0) || math.IsInf(m.seconds, 0) {
		return m, fmt.Errorf("time %q: want a positive number of seconds", record[at[2]])
	}
	return m, nil
}

// fill makes the grid.
func (t *TableTime) fill(rows []measured) error {
	for _, m := range rows {
		t.sizes = append(t.sizes, m.size)
		t.longs = append(t.longs, m.long)
	}
	t.sizes, t.longs = sortedSet(t.sizes), sortedSet(t.longs)
	if len(t.sizes) == 0 {
		return fmt.Errorf("%s: no times", t.name)
	}
	lines := map[[2]int]int{}
	t.seconds = make([][]float64, len(t.sizes))
	for i := range t.seconds {
		t.seconds[i] = make([]float64, len(t.longs))
	}
	for _, m := range rows {
		i, _ := slices.BinarySearch(t.sizes, m.size)
		j, _ := slices.BinarySearch(t.longs, m.long)
		if first := lines[[2]int{i, j}]; first > 0 {
			return fmt.Errorf("%s:%d: batch size %d with length %d stands on line %d already", t.name, m.line, m.size, m.long,
				first)
		}
		lines[[2]int{i, j}] = m.line
		t.seconds[i][j] = m.seconds
	}
	for i, size := range t.sizes {
		for j, long := range t.longs {
			if t.seconds[i][j] == 0 {
				return fmt.Errorf("%s: no time for batch size %d with length %d: every size needs every length", t.name, size,
					long)
			}
		}
	}
	return nil
}

func sortedSet(values []int) []int { return slices.Compact(slices.Sorted(slices.Values(values))) }

// Clamped is the table with its outermost times for whatever lies outside. Without it, such batches are refused.
func (t *TableTime) Clamped() *TableTime {
	c := *t
	c.clamp = true
	return &c
}

// Bounds is what the table covers.
func (t *TableTime) Bounds() (minSize, maxSize, minLong, maxLong int) {
	return t.sizes[0], t.sizes[len(t.sizes)-1], t.longs[0], t.longs[len(t.longs)-1]
}

// Source says where the numbers come from.
func (t *TableTime) Source() string { return t.source }

// Seconds interpolates between the four nearest times.
func (t *TableTime) Seconds(b, longest int) (float64, error) {
	minSize, maxSize, minLong, maxLong := t.Bounds()
	outside := b < minSize || b > maxSize || longest < minLong || longest > maxLong
	if outside && !t.clamp {
		return 0, fmt.Errorf("%s has times for %d to %d requests of %d to %d tokens, none for %d of %d: measure more, or "+
			"use its outermost times", t.name, minSize, maxSize, minLong, maxLong, b, longest)
	}
	i, u := between(t.sizes, b)
	j, v := between(t.longs, longest)
	low := t.seconds[i][j]*(1-v) + t.seconds[i][min(j+1, len(t.longs)-1)]*v
	i = min(i+1, len(t.sizes)-1)
	high := t.seconds[i][j]*(1-v) + t.seconds[i][min(j+1, len(t.longs)-1)]*v
	return low*(1-u) + high*u, nil
}

// between is the place at or before v in a list, and how much of the way to the next one v is.
func between(list []int, v int) (int, float64) {
	i, found := slices.BinarySearchFunc(list, v, cmp.Compare[int])
	switch {
	case found:
		return i, 0
	case i == 0:
		return 0, 0
	case i == len(list):
		return i - 1, 0
	}
	return i - 1, float64(v-list[i-1]) / float64(list[i]-list[i-1])
}
