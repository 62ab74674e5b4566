package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Fault is one thing wrong with a file.
type Fault struct {
	File string
	Line int // 0 when the fault has no place in the file, such as a flag; a missing key has that of what it is missing in
	Col  int
	Path string // such as buffer.depth
	Text string
	form bool // as in settings.Fault
}

// Error is "run.yaml:7:3: buffer.depth: ...".
func (f *Fault) Error() string {
	var b strings.Builder
	b.WriteString(f.File)
	if f.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", f.Line, f.Col)
	}
	b.WriteString(": ")
	if f.Path != "" {
		b.WriteString(f.Path + ": ")
	}
	b.WriteString(f.Text)
	return b.String()
}

// Faults is everything wrong with a file, in the order of its lines.
type Faults []*Fault

// ErrFaulty is what a process ends with that only another configuration lets run: started again it would end alike.
// Faults are that, too.
var ErrFaulty = errors.New("the configuration is faulty")

// Is reports that faults of the service's configuration keep a process from running.
func (fs Faults) Is(target error) bool { return target == ErrFaulty }

// Error is one fault per line.
func (fs Faults) Error() string {
	lines := make([]string, len(fs))
	for i, f := range fs {
		lines[i] = f.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives the faults one by one.
func (fs Faults) Unwrap() []error {
	errs := make([]error, len(fs))
	for i, f := range fs {
		errs[i] = f
	}
	return errs
}

// maxFaults is how many faults are told: a file with more is not a file of this kind.
const maxFaults = 100

// err is nil when nothing is wrong. Faults without a place come first: they are about the file as a whole.
func (fs Faults) err() error {
	if len(fs) == 0 {
		return nil
	}
	slices.SortStableFunc(fs, func(a, b *Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	if more := len(fs) - maxFaults; more > 0 {
		fs = append(fs[:maxFaults:maxFaults], &Fault{File: fs[0].File, Text: fmt.Sprintf("and %d faults more", more)})
	}
	return fs
}
