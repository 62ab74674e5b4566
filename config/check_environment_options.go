package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/settings"
)

// Environments judges the options of each kind of environment: a JSON object without the kind, or nil for all
// defaults. An error that unwraps to several is reported fault by fault.
type Environments map[string]func(options json.RawMessage) error

// maxOptionsBytes bounds the options as JSON: every game carries them, through Temporal and in each worker.
const maxOptionsBytes = 8 << 10

// checkEnvironment lets the environment judge its own options and finds the lines that it means.
func (r *reader) checkEnvironment(e *rollout.Environment, env Environments) {
	const path = "environment"
	for p := range r.places {
		if strings.HasPrefix(p, path) && r.hasFault(p) {
			return
		}
	}
	if r.hasFault(path) {
		return
	}
	if n := len(e.Options); n > maxOptionsBytes {
		r.faultAt(path, "options of %d bytes; every game carries them, and %d are the most: shorten texts such as "+
			"prompt.chat_template", n, maxOptionsBytes)
		return
	}
	kinds := slices.Sorted(maps.Keys(env))
	if e.Kind == "" {
		r.faultAt(path+".kind", "is missing: which environment is played; there are %s", strings.Join(kinds, ", "))
		return
	}
	validate, known := env[e.Kind]
	if !known {
		text := fmt.Sprintf("there is no environment %q; there are %s", e.Kind, strings.Join(kinds, ", "))
		if near := settings.Nearest(e.Kind, kinds); near != "" {
			text = fmt.Sprintf("there is no environment %q; did you mean %s?", e.Kind, near)
		}
		r.faultAt(path+".kind", "%s", text)
		return
	}
	for _, err := range each(validate(e.Options)) {
		at, text := r.blame(path, err.Error())
		r.faultAt(at, "%s", text)
	}
}

// each is the several errors that err holds, or err alone.
func each(err error) []error {
	if err == nil {
		return nil
	}
	var many interface{ Unwrap() []error }
	if errors.As(err, &many) {
		var all []error
		for _, e := range many.Unwrap() {
			all = append(all, each(e)...)
		}
		return all
	}
	return []error{err}
}

// blame finds the option that an environment's fault is about: the path that leads its text, or else the first
// option in the file that the text names. The path is then said once.
func (r *reader) blame(path, text string) (at, rest string) {
	if lead, rest, ok := strings.Cut(text, ": "); ok {
		if _, set := r.places[settings.Join(path, lead)]; set || lead != "" && !strings.ContainsAny(lead, " \"'") &&
			strings.Contains(lead, ".") {
			return settings.Join(path, lead), rest
		}
	}
	var options []string
	for p := range r.places {
		if strings.HasPrefix(p, path+".") && p != path+".kind" {
			options = append(options, p)
		}
	}
	// Longer paths first: they say more exactly what is meant.
	slices.SortFunc(options, func(a, b string) int {
		if d := strings.Count(b, ".") - strings.Count(a, "."); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	for _, p := range options {
		if names(text, p[strings.LastIndex(p, ".")+1:]) {
			return p, text
		}
	}
	return path, text
}

// names reports whether text holds the word key.
func names(text, key string) bool {
	word := func(c rune) bool {
		return c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
	}
	return slices.Contains(strings.FieldsFunc(text, word), key)
}
