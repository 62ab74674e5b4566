// Package eventscript replays the scripts by which state machines are tested. A line that begins with ">" is an event,
// the lines below it are what the event brought, and the rest, after "#", is for the reader. With -update the scripts
// are rewritten with what their events bring now; read that difference: it is the specification that changes. Start
// reading at Run.
package eventscript

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the scripts in testdata with what their events bring now")

// Run replays the scripts that match a pattern, side by side. begin makes what plays one script: it takes an event and
// returns what this brought, a line each.
func Run(t *testing.T, pattern string, begin func() func(*Event) (string, error)) {
	t.Parallel()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)), func(t *testing.T) {
			t.Parallel()
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got, err := replay(string(want), begin())
			switch {
			case err != nil:
				t.Fatalf("%s: %v", file, err)
			case got == string(want):
			case !*update:
				t.Fatalf("%s: run with -update and read the difference; got\n%s", file, got)
			default:
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// replay returns the script with what its events bring now.
func replay(script string, play func(*Event) (string, error)) (string, error) {
	var out strings.Builder
	for line := range strings.Lines(script) {
		text := strings.TrimSpace(line)
		event, is := strings.CutPrefix(text, ">")
		if is || text == "" || strings.HasPrefix(text, "#") {
			out.WriteString(line)
		}
		if !is {
			continue
		}
		e := read(event)
		brought, err := play(e)
		if err == nil {
			err = e.fault()
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", text, err)
		}
		out.WriteString(brought)
	}
	return out.String(), nil
}

// Event is an event's line: its words, and its name=value pairs, each of which must be asked for.
type Event struct {
	Words  []string
	values map[string]string
	asked  map[string]bool
	err    error // of the first value that cannot be read
}

func read(line string) *Event {
	e := &Event{values: map[string]string{}, asked: map[string]bool{}}
	for _, word := range strings.Fields(line) {
		if name, value, pair := strings.Cut(word, "="); pair {
			e.values[name] = value
			continue
		}
		e.Words = append(e.Words, word)
	}
	return e
}

func (e *Event) fault() error {
	if e.err != nil {
		return e.err
	}
	for _, name := range slices.Sorted(maps.Keys(e.values)) {
		if !e.asked[name] {
			return fmt.Errorf("nobody knows %s=", name)
		}
	}
	return nil
}

// Word is the i-th word, or "".
func (e *Event) Word(i int) string {
	if i < len(e.Words) {
		return e.Words[i]
	}
	return ""
}

// Text is a value, or "".
func (e *Event) Text(name string) string {
	e.asked[name] = true
	return e.values[name]
}

// List is the parts of a value between its commas.
func (e *Event) List(name string) []string {
	return strings.FieldsFunc(e.Text(name), func(c rune) bool { return c == ',' })
}

// Int is a value, or 0.
func (e *Event) Int(name string) int { return value(e, name, strconv.Atoi) }

// Float is a value, or 0.
func (e *Event) Float(name string) float64 {
	return value(e, name, func(text string) (float64, error) { return strconv.ParseFloat(text, 64) })
}

// Duration is a value, or 0.
func (e *Event) Duration(name string) time.Duration { return value(e, name, time.ParseDuration) }

func value[T any](e *Event, name string, parse func(string) (T, error)) (v T) {
	text := e.Text(name)
	if text == "" {
		return v
	}
	v, err := parse(text)
	if err != nil && e.err == nil {
		e.err = fmt.Errorf("%s: %w", name, err)
	}
	return v
}
