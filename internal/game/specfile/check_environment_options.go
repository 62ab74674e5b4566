package specfile

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/kit/settings"
	"github.com/millrace/millrace/internal/kit/settings/document"

	"github.com/millrace/millrace/internal/rollout/runspec"
)

// Environments judges the options of each kind of environment: a JSON object without the kind, or nil for all
// defaults. An error that unwraps to several is reported fault by fault.
type Environments map[string]func(options json.RawMessage) error

// maxOptionsBytes bounds the options as JSON: every game carries them, through Temporal and in each worker.
const maxOptionsBytes = 8 << 10

// check lets the environment judge its own options and finds the lines that it means.
func (env Environments) check(e *runspec.Environment, d *document.Document) {
	const path = "environment"
	if d.Faulty(path) || slices.ContainsFunc(d.Below(path), d.Faulty) {
		return
	}
	if n := len(e.Options); n > maxOptionsBytes {
		d.Fault(path, "options of %d bytes; every game carries them, and %d are the most: shorten texts such as "+
			"prompt.chat_template", n, maxOptionsBytes)
		return
	}
	kinds := slices.Sorted(maps.Keys(env))
	if e.Kind == "" {
		d.Fault(path+".kind", "is missing: which environment is played; there are %s", strings.Join(kinds, ", "))
		return
	}
	validate, known := env[e.Kind]
	if !known {
		text := fmt.Sprintf("there is no environment %q; there are %s", e.Kind, strings.Join(kinds, ", "))
		if near := settings.Nearest(e.Kind, kinds); near != "" {
			text = fmt.Sprintf("there is no environment %q; did you mean %s?", e.Kind, near)
		}
		d.Fault(path+".kind", "%s", text)
		return
	}
	for _, err := range settings.Each(validate(e.Options)) {
		at, text := blame(d, path, err.Error())
		d.Fault(at, "%s", text)
	}
}

// blame finds the option that an environment's fault is about: the path that leads its text, or else the first
// option in the file that the text names. The path is then said once.
func blame(d *document.Document, path, text string) (at, rest string) {
	if lead, rest, ok := strings.Cut(text, ": "); ok {
		if d.Given(settings.Join(path, lead)) || lead != "" && !strings.ContainsAny(lead, " \"'") &&
			strings.Contains(lead, ".") {
			return settings.Join(path, lead), rest
		}
	}
	options := slices.DeleteFunc(d.Below(path), func(p string) bool { return p == path+".kind" })
	// Longer paths first: they say more exactly what is meant.
	slices.SortFunc(options, func(a, b string) int {
		return cmp.Or(strings.Count(b, ".")-strings.Count(a, "."), strings.Compare(a, b))
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
