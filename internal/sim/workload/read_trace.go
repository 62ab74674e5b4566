package workload

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"
)

// Need is what a trace must say of its requests.
type Need uint8

// The needs.
const (
	Times   Need = iota // when they arrive
	Lengths             // and how many tokens their prompts and answers have
)

// maxTraceBytes bounds what is taken for a trace, unpacked; maxArrivals bounds its requests, whatever a file says of
// how many a call has.
const (
	maxTraceBytes = 1 << 30
	maxArrivals   = 20_000_000
	maxTokens     = 100_000_000
	maxPrompts    = 100_000 // of one call
)

// Names that programs give to what a trace says. Case, spaces and underscores do not count.
var (
	secondNames = []string{"arrival_s", "arrival", "arrival_time", "arrival_seconds", "arrived_at", "time", "time_s", "t",
		"at", "timestamp", "timestamp_s", "seconds"}
	milliNames  = []string{"arrival_ms", "timestamp_ms", "time_ms", "t_ms"}
	promptNames = []string{"prompt_tokens", "request_tokens", "input_tokens", "context_tokens", "input_length",
		"num_prefill_tokens", "prompt_len"}
	outputNames = []string{"output_tokens", "response_tokens", "generated_tokens", "completion_tokens", "output_length",
		"num_decode_tokens", "output_len"}
	countNames = []string{"prompts", "batch_size", "num_prompts", "n_prompts", "count", "size", "requests"}
)

// record is one line or object of a trace: a call.
type record struct {
	line           int
	at             time.Duration
	date           bool // at is since 1970
	count          int
	prompt, output int
}

// ReadTrace reads arrivals from CSV with a header, from JSON (a list of times in seconds, or of objects; alone or under
// one key) or from JSON lines; any of them may be packed with gzip. Name is what errors call the file. It is an error
// if it does not say what is needed, or if times go back.
func ReadTrace(name string, data []byte, need Need) (Trace, error) {
	data, err := unpack(data)
	if err != nil {
		return Trace{}, fmt.Errorf("%s: %w", name, err)
	}
	data = bytes.TrimPrefix(data, []byte("\uFEFF"))
	var records []record
	switch trimmed := bytes.TrimSpace(data); {
	case len(trimmed) == 0:
		return Trace{}, fmt.Errorf("%s: the file is empty: want arrivals, as CSV with a header or as JSON", name)
	case trimmed[0] == '[' || trimmed[0] == '{':
		records, err = readJSONRecords(name, data, need)
	default:
		records, err = readCSVRecords(name, data, need)
	}
	if err != nil {
		return Trace{}, err
	}
	return arrivalsOf(name, records)
}

func unpack(data []byte) ([]byte, error) {
	if !bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		return data, nil
	}
	packed, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("it begins like a gzip file and is none: %w", err)
	}
	data, err = io.ReadAll(io.LimitReader(packed, maxTraceBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("unpack: %w", err)
	case len(data) > maxTraceBytes:
		return nil, errors.New("unpacked it is larger than 1 GiB; take a part of it")
	}
	return data, nil
}

// arrivalsOf checks that calls stand in order of time, and takes them apart into requests.
func arrivalsOf(name string, records []record) (Trace, error) {
	if len(records) == 0 {
		return Trace{}, fmt.Errorf("%s: no rows: a header alone says nothing; add one row for each arrival", name)
	}
	t := Trace{Name: name}
	start := startOf(records)
	for i, r := range records {
		if i > 0 && r.at < records[i-1].at {
			return Trace{}, fmt.Errorf("%s:%d: the arrival at %v comes after one at %v: sort the rows by arrival time", name,
				r.line, r.at-start, records[i-1].at-start)
		}
		if len(t.Arrivals)+r.count > maxArrivals {
			return Trace{}, fmt.Errorf("%s:%d: more than %d requests; take a part of the file", name, r.line, maxArrivals)
		}
		for range r.count {
			t.Arrivals = append(t.Arrivals, Arrival{At: r.at - start, Prompt: r.prompt, Output: r.output, Call: i})
		}
	}
	return t, nil
}

// startOf is when time begins: at 0, or with the first arrival if times are dates.
func startOf(records []record) time.Duration {
	if first := records[0]; first.date {
		return first.at
	}
	return 0
}

// leastDate is the least number of seconds that is taken for a date since 1970: a little more than three years.
const leastDate = 1e8

// timeOf is a time as a file has it: a number of units, or a date.
func timeOf(text string, unit time.Duration) (at time.Duration, date bool, err error) {
	x, err := number(text)
	if err != nil {
		for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999", "2006-01-02T15:04:05.999999999"} {
			if t, err := time.Parse(layout, strings.TrimSpace(text)); err == nil {
				return t.Sub(time.Unix(0, 0)), true, nil
			}
		}
		return 0, false, fmt.Errorf("%s is no time: want a number of %s, or a date such as 2023-11-16 18:15:46.68",
			shown(text), unitName(unit))
	}
	seconds := x * unit.Seconds()
	switch {
	case x < 0:
		return 0, false, fmt.Errorf("the arrival time %s is negative: times count from 0", shown(text))
	case seconds > math.MaxInt64/1e9/2:
		return 0, false, fmt.Errorf("the arrival time %s is too large; is it in %s?", shown(text), unitName(unit))
	}
	return time.Duration(math.Round(seconds * 1e9)), seconds >= leastDate, nil
}

func unitName(unit time.Duration) string {
	if unit == time.Millisecond {
		return "milliseconds"
	}
	return "seconds"
}

// tokensOf is a count of tokens, or of prompts.
func countOf(what, text string, least, most int) (int, error) {
	x, err := number(text)
	switch {
	case err != nil || x != math.Trunc(x):
		return 0, fmt.Errorf("%s is %s: want a whole number", what, shown(text))
	case x < float64(least):
		return 0, fmt.Errorf("%s is %s: want at least %d", what, shown(text), least)
	case x > float64(most):
		return 0, fmt.Errorf("%s is %s: want at most %d", what, shown(text), most)
	}
	return int(x), nil
}

func shown(text string) string {
	if letters := []rune(text); len(letters) > 40 {
		text = string(letters[:40]) + "..."
	}
	return fmt.Sprintf("%q", text)
}

// called reports whether a column or key has one of these names.
func called(name string, names []string) bool {
	return slices.Contains(names, plain(name))
}

// plain is a name as the lists of names have it: ContextTokens is context_tokens.
func plain(name string) string {
	name = strings.TrimSpace(name)
	var b strings.Builder
	for i, c := range name {
		switch {
		case c == ' ' || c == '-':
			b.WriteByte('_')
		case c >= 'A' && c <= 'Z':
			if i > 0 && name[i-1] >= 'a' && name[i-1] <= 'z' {
				b.WriteByte('_')
			}
			b.WriteRune(c - 'A' + 'a')
		default:
			b.WriteRune(c)
		}
	}
	return b.String()
}
