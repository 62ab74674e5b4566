package settings

import (
	"fmt"
	"slices"
	"strings"
)

// Fault is one thing wrong with a document.
type Fault struct {
	Path string // such as buffer.depth; empty: the document as a whole
	Text string
	Form bool // the value as it is written cannot be read; otherwise the key is wrong, or the value means nothing
}

// Error is "buffer.depth: 65 is more than 64".
func (f *Fault) Error() string { return strings.TrimPrefix(f.Path+": "+f.Text, ": ") }

// Faults is everything wrong with a document.
type Faults []*Fault

// Error is all of them on one line.
func (fs Faults) Error() string {
	texts := make([]string, len(fs))
	for i, f := range fs {
		texts[i] = f.Error()
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

// Err is nil when nothing is wrong.
func (fs Faults) Err() error {
	if len(fs) == 0 {
		return nil
	}
	return fs
}

// Has reports whether a key has a fault, or stands in what cannot be read.
func (fs Faults) Has(path string) bool {
	return slices.ContainsFunc(fs, func(f *Fault) bool {
		rest, within := strings.CutPrefix(path, f.Path)
		return rest == "" && within || f.Form && within && (f.Path == "" || strings.ContainsAny(rest[:1], ".["))
	})
}

// Add adds a fault.
func (fs *Faults) Add(path, format string, args ...any) {
	*fs = append(*fs, &Fault{Path: path, Text: fmt.Sprintf(format, args...)})
}
