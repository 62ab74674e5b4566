package settings

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Fault is one thing wrong with a document.
type Fault struct {
	File string // empty: the document is no file
	Line int    // 0 when it has no place in the file, such as a flag; a missing key has that of what it is missing in
	Col  int
	Path string // such as buffer.depth; empty: the document as a whole
	Text string
	Form bool // the value as it is written cannot be read; otherwise the key is wrong, or the value means nothing
}

// Error is "run.yaml:7:3: buffer.depth: 65 is more than 64".
func (f *Fault) Error() string {
	text := strings.TrimPrefix(f.Path+": "+f.Text, ": ")
	switch {
	case f.Line > 0:
		return fmt.Sprintf("%s:%d:%d: %s", f.File, f.Line, f.Col, text)
	case f.File != "":
		return f.File + ": " + text
	}
	return text
}

// Faults is everything wrong with a document; of a file in the order of its lines.
type Faults []*Fault

// ErrFaulty ends a process that only another configuration lets run: a restart would end alike. Faults of files are
// ErrFaulty, too.
var ErrFaulty = errors.New("the configuration is faulty")

// Is reports that faults of a file keep a process from running.
func (fs Faults) Is(target error) bool { return target == ErrFaulty && fs.inFile() }

func (fs Faults) inFile() bool { return len(fs) > 0 && fs[0].File != "" }

// Error is one fault of a file per line, and those of a request on one line.
func (fs Faults) Error() string {
	texts := make([]string, len(fs))
	for i, f := range fs {
		texts[i] = f.Error()
	}
	if fs.inFile() {
		return strings.Join(texts, "\n")
	}
	return strings.Join(texts, "; ")
}

// Unwrap gives the faults one by one.
func (fs Faults) Unwrap() []error {
	errs := make([]error, len(fs))
	for i, f := range fs {
		errs[i] = f
	}
	return errs
}

// MaxFaults bounds the reported faults of a file: one with more is a file of another kind.
const MaxFaults = 100

// Err is nil when nothing is wrong. Faults of a file without a place come first: they are about it as a whole.
func (fs Faults) Err() error {
	if len(fs) == 0 {
		return nil
	}
	if !fs.inFile() {
		return fs
	}
	slices.SortStableFunc(fs, func(a, b *Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	if more := len(fs) - MaxFaults; more > 0 {
		fs = append(fs[:MaxFaults:MaxFaults], &Fault{File: fs[0].File, Text: fmt.Sprintf("and %d faults more", more)})
	}
	return fs
}

// Has reports whether a key has a fault, or stands in what cannot be read.
func (fs Faults) Has(path string) bool {
	return slices.ContainsFunc(fs, func(f *Fault) bool {
		return path == f.Path || f.Form && (f.Path == "" || Within(path, f.Path))
	})
}

// Add adds a fault.
func (fs *Faults) Add(path, format string, args ...any) {
	*fs = append(*fs, &Fault{Path: path, Text: fmt.Sprintf(format, args...)})
}

// Require adds a fault unless all is well.
func (fs *Faults) Require(ok bool, path, format string, args ...any) {
	if !ok {
		fs.Add(path, format, args...)
	}
}

// Checks is everything wrong with what is no document.
type Checks []error

// Require adds a fault unless all is well.
func (c *Checks) Require(ok bool, format string, args ...any) {
	if !ok {
		*c = append(*c, fmt.Errorf(format, args...))
	}
}

// Err is nil when nothing is wrong.
func (c Checks) Err() error { return errors.Join(c...) }

// Each is the several errors that err holds, or err alone.
func Each(err error) []error {
	if err == nil {
		return nil
	}
	var many interface{ Unwrap() []error }
	if !errors.As(err, &many) {
		return []error{err}
	}
	var all []error
	for _, e := range many.Unwrap() {
		all = append(all, Each(e)...)
	}
	return all
}

// Within reports whether a key is another or stands below it.
func Within(path, above string) bool {
	rest, ok := strings.CutPrefix(path, above)
	return ok && (rest == "" || strings.ContainsAny(rest[:1], ".["))
}
