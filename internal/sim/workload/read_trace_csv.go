package workload

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// columns is where a CSV file has what; -1: it has not.
type columns struct {
	time, prompt, output, count int
	unit                        time.Duration
}

func readCSVRecords(name string, data []byte, need Need) ([]record, error) {
	r := csv.NewReader(bytes.NewReader(data))
	r.Comment = '#'
	r.TrimLeadingSpace = true
	r.ReuseRecord = true
	header, err := r.Read()
	if err != nil {
		return nil, csvError(name, err)
	}
	line, _ := r.FieldPos(0)
	cols, headless, err := columnsOf(header, need)
	if err != nil {
		return nil, fmt.Errorf("%s:%d: %w", name, line, err)
	}
	var records []record
	row := header
	for {
		if !headless {
			row, err = r.Read()
			if errors.Is(err, io.EOF) {
				return records, nil
			}
			if err != nil {
				return nil, csvError(name, err)
			}
		}
		headless = false
		call, err := callOf(row, cols)
		call.line, _ = r.FieldPos(0)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, call.line, err)
		}
		records = append(records, call)
	}
}

// csvError gives a fault of the form its place.
func csvError(name string, err error) error {
	var at *csv.ParseError
	switch {
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%s: nothing but comments: want a header and a row for each arrival", name)
	case errors.As(err, &at) && errors.Is(err, csv.ErrFieldCount):
		return fmt.Errorf("%s:%d: this row has more or fewer fields than the header", name, at.Line)
	case errors.As(err, &at):
		return fmt.Errorf("%s:%d: this is no CSV: %w", name, at.Line, at.Err)
	}
	return fmt.Errorf("%s: %w", name, err)
}

// columnsOf finds the columns by their names. A file of one column that begins with a number has no header: that
// number is an arrival, too.
func columnsOf(header []string, need Need) (c columns, headless bool, err error) {
	if _, err := number(header[0]); len(header) == 1 && err == nil && need == Times {
		return columns{0, -1, -1, -1, time.Second}, true, nil
	}
	for i, h := range header {
		if slices.Index(header, h) < i {
			return c, false, fmt.Errorf("two columns are called %q: keep one", h)
		}
	}
	find := func(names []string) int {
		return slices.IndexFunc(header, func(h string) bool { return called(h, names) })
	}
	c = columns{find(secondNames), find(promptNames), find(outputNames), find(countNames), time.Second}
	if milli := find(milliNames); c.time < 0 && milli >= 0 {
		c.time, c.unit = milli, time.Millisecond
	}
	missing := func(what string, names []string) error {
		return fmt.Errorf("no column for %s among %s: name it %s", what, strings.Join(quoted(header), ", "), names[0])
	}
	switch {
	case c.time < 0:
		return c, false, missing("the arrival time", secondNames)
	case need == Lengths && c.prompt < 0:
		return c, false, missing("the prompt's tokens", promptNames)
	case need == Lengths && c.output < 0:
		return c, false, missing("the answer's tokens", outputNames)
	}
	return c, false, nil
}

func quoted(texts []string) []string {
	const most = 12
	out := make([]string, 0, min(len(texts), most))
	for _, text := range texts[:min(len(texts), most)] {
		out = append(out, shown(text))
	}
	if len(texts) > most {
		out = append(out, fmt.Sprintf("%d more", len(texts)-most))
	}
	return out
}

// callOf reads one row.
func callOf(row []string, cols columns) (record, error) {
	r := record{count: 1}
	var err error
	if r.at, r.date, err = timeOf(row[cols.time], cols.unit); err != nil {
		return r, err
	}
	for _, field := range []struct {
		what        string
		at          int
		least, most int
		into        *int
	}{
		{"the prompt's tokens", cols.prompt, 0, maxTokens, &r.prompt},
		{"the answer's tokens", cols.output, 0, maxTokens, &r.output},
		{"the count of prompts", cols.count, 1, maxPrompts, &r.count},
	} {
		if field.at < 0 {
			continue
		}
		if *field.into, err = countOf(field.what, row[field.at], field.least, field.most); err != nil {
			return r, err
		}
	}
	return r, nil
}

// number is a finite number.
func number(text string) (float64, error) {
	x, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err == nil && (math.IsNaN(x) || math.IsInf(x, 0)) {
		err = errors.New("not finite")
	}
	return x, err
}
