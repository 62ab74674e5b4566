package config

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/diplomacyenv"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/tictactoe"
)

const (
	referenceFile = "../docs/spec.md"
	keysBegin     = "<!-- keys: begin; written by go test ./config -update -->\n"
	keysEnd       = "<!-- keys: end -->\n"
)

// TestReferenceIsUpToDate holds the page about run specs to the table that specs are read by; -update writes its
// tables.
func TestReferenceIsUpToDate(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(referenceFile)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(page), keysBegin)
	written, after, end := strings.Cut(rest, keysEnd)
	if !ok || !end {
		t.Fatalf("%s has no place for the keys", referenceFile)
	}
	want := specReference()
	if flag.Lookup("update").Value.String() == "true" {
		if err := os.WriteFile(referenceFile, []byte(before+keysBegin+want+keysEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if written != want {
		t.Errorf("%s differs from the table of keys; go test ./config -update writes it anew", referenceFile)
	}
}

// specReference is a table of keys for each section of a run spec.
func specReference() string {
	var b strings.Builder
	defaults := reflect.ValueOf(DefaultSpec())
	head := func(title, doc string) {
		fmt.Fprintf(&b, "\n### %s\n\n", title)
		if doc != "" {
			fmt.Fprintf(&b, "%s.\n\n", sentence(doc))
		}
		b.WriteString("| key | default | values | live | meaning |\n|---|---|---|---|---|\n")
	}
	head("The run", "")
	open := "" // the section whose table is being written
	for _, rule := range specTable.rules {
		places := find(defaults, "", rule.path)
		section := len(places) == 1 && places[0].value.Kind() == reflect.Struct && rule.path != "environment"
		switch {
		case section, rule.path == "policies":
			head("`"+rule.path+"`", rule.doc)
			open = rule.path
			continue
		case !strings.Contains(rule.path, ".") && open != "":
			head("The run, continued", "")
			open = ""
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", rule.path, standard(rule, places), values(rule, places), live(rule.path), strings.ReplaceAll(rule.doc, "|", `\|`))
	}
	b.WriteByte('\n')
	return b.String()
}

func sentence(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// standard is the default of a key.
func standard(rule rule, places []found) string {
	switch {
	case rule.path == "environment" || rule.path == "environment.kind" || rule.required && (len(places) == 0 || places[0].value.IsZero()):
		return "required"
	case rule.path == "group.min_samples":
		return "`samples`"
	case len(places) == 0 || places[0].value.Kind() == reflect.Slice:
		return "none"
	}
	if s, ok := places[0].value.Interface().(fmt.Stringer); ok {
		return "`" + s.String() + "`"
	}
	if text := fmt.Sprint(places[0].value.Interface()); text != "" {
		return "`" + text + "`"
	}
	return "none"
}

// values is what a key may be.
func values(rule rule, places []found) string {
	show := func(x float64) string { return fmt.Sprint(x) }
	if len(places) == 1 {
		if _, s, ok := measure(places[0].value); ok {
			show = s
		}
	}
	switch {
	case len(rule.oneOf) > 0:
		return strings.Join(rule.oneOf, ", ")
	case rule.above != nil && rule.max != nil:
		return "more than " + show(*rule.above) + ", to " + show(*rule.max)
	case rule.above != nil:
		return "more than " + show(*rule.above)
	case rule.min != nil && rule.max != nil:
		return show(*rule.min) + " to " + show(*rule.max)
	case rule.min != nil:
		return "from " + show(*rule.min)
	}
	return ""
}

// live reports whether `millrace run set` changes a key of a running run.
func live(path string) string {
	if slices.Contains(changeable(), path[strings.LastIndex(path, ".")+1:]) {
		return "yes"
	}
	return ""
}

// changeable is the last words of the keys that a change may have.
func changeable() []string {
	var names []string
	for _, f := range fieldsOf(reflect.TypeFor[rollout.Change]()) {
		if f.name != "paused" { // an operation, not a key
			names = append(names, f.name)
		}
	}
	return names
}

// TestChangesAreKeys: what can be changed in a running run is called as in the spec, and means one key.
func TestChangesAreKeys(t *testing.T) {
	t.Parallel()
	for _, name := range changeable() {
		var paths []string
		for _, rule := range specTable.rules {
			if rule.path[strings.LastIndex(rule.path, ".")+1:] == name {
				paths = append(paths, rule.path)
			}
		}
		if len(paths) != 1 {
			t.Errorf("%s stands for %v", name, paths)
		}
	}
}

// TestReferenceHasEveryOption: the options of environments stand in the same page, by hand, with their defaults.
func TestReferenceHasEveryOption(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(referenceFile)
	if err != nil {
		t.Fatal(err)
	}
	for kind, defaults := range map[string]any{diplomacyenv.Kind: diplomacyenv.DefaultConfig(), tictactoe.Kind: tictactoe.Config{}} {
		_, section, ok := strings.Cut(string(page), "\n### `kind: "+kind+"`\n")
		if !ok {
			t.Errorf("there is nothing about %s", kind)
		}
		section, _, _ = strings.Cut(section, "\n### ")
		data, err := json.Marshal(defaults)
		if err != nil {
			t.Fatal(err)
		}
		var object map[string]any
		if err := json.Unmarshal(data, &object); err != nil {
			t.Fatal(err)
		}
		for path, value := range leaves("", object) {
			text, err := json.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			row := fmt.Sprintf("| `%s` | `%s` |", path, strings.Trim(string(text), `"`))
			if value == "" {
				row = fmt.Sprintf("| `%s` | none |", path)
			}
			if !strings.Contains(section, row) {
				t.Errorf("%s: there is no row %q", kind, row)
			}
		}
	}
}

// leaves are the values of an object by their paths.
func leaves(path string, object map[string]any) map[string]any {
	all := map[string]any{}
	for key, value := range object {
		inner, isObject := value.(map[string]any)
		if !isObject {
			all[join(path, key)] = value
			continue
		}
		for at, v := range leaves(join(path, key), inner) {
			all[at] = v
		}
	}
	return all
}
