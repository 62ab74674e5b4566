package arrivals

import (
	"bytes"
	"compress/gzip"
	"embed"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

//go:embed traces/*.csv traces/*.gz
var traces embed.FS

// ReadTrace reads a trace by its name; traces/README.md says where they are from.
func ReadTrace(name string) (Trace, error) {
	file, err := traces.Open("traces/" + name + ".csv")
	if err == nil {
		return readCSV(name, file)
	}
	if file, err = traces.Open("traces/" + name + ".csv.gz"); err != nil {
		return Trace{}, fmt.Errorf("there is no trace %s", name)
	}
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		return Trace{}, fmt.Errorf("trace %s: %w", name, err)
	}
	return readCSV(name, unpacked)
}

// The columns of a trace, by the names that their programs give them: seconds, tokens of the prompt and of the answer.
var columnNames = [][]string{{"arrival_s", "Timestamp"}, {"prompt_tokens", "Request tokens"},
	{"output_tokens", "Response tokens"}}

func readCSV(name string, r io.Reader) (Trace, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return Trace{}, fmt.Errorf("trace %s: %w", name, err)
	}
	read := csv.NewReader(bytes.NewReader(text))
	read.Comment = '#'
	rows, err := read.ReadAll()
	if err != nil || len(rows) < 2 {
		return Trace{}, fmt.Errorf("trace %s: %d rows, %w", name, len(rows), err)
	}
	var at []int
	for _, names := range columnNames {
		at = append(at, slices.IndexFunc(rows[0], func(c string) bool {
			return slices.Contains(names,
				strings.TrimSpace(c))
		}))
	}
	t := Trace{Name: name}
	for i, row := range rows[1:] {
		var numbers [3]float64
		for k, column := range at {
			if numbers[k], err = strconv.ParseFloat(row[column], 64); err != nil {
				return t, fmt.Errorf("trace %s, row %d: %w", name, i+1, err)
			}
		}
		t.Arrivals = append(t.Arrivals, Arrival{At: time.Duration(math.Round(numbers[0] * 1e9)), Prompt: int(numbers[1]),
			Output: int(numbers[2]), Call: i})
	}
	return t, nil
}
