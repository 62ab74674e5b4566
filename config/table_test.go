package config

import (
	"encoding"
	"reflect"
	"testing"

	"github.com/millrace/millrace/internal/rollout"
)

// TestEveryKeyHasItsRule: a new field of the vocabulary is documented here, or this fails.
func TestEveryKeyHasItsRule(t *testing.T) {
	t.Parallel()
	for _, file := range []struct {
		table table
		value any
	}{{specTable, rollout.Spec{}}, {serviceTable, Service{}}} {
		paths := map[string]bool{}
		collect(reflect.TypeOf(file.value), "", paths)
		for path := range paths {
			if rule, ok := file.table.rule(path); !ok || rule.doc == "" {
				t.Errorf("%s has no rule", path)
			}
		}
		for _, rule := range file.table.rules {
			if !paths[rule.path] && rule.path != "environment.kind" {
				t.Errorf("there is a rule for %s, which is no key", rule.path)
			}
		}
	}
}

func collect(t reflect.Type, path string, paths map[string]bool) {
	if path != "" {
		paths[path] = true
	}
	if t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	opaque := t == reflect.TypeFor[rollout.Environment]() || reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
	if t.Kind() != reflect.Struct || opaque {
		return
	}
	for _, f := range fieldsOf(t) {
		collect(t.Field(f.index).Type, join(path, f.name), paths)
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	known := []string{"depth", "groups_per_step", "max_staleness", "on_stale"}
	for word, want := range map[string]string{
		"depht": "depth", "Depth": "depth", "group_per_steps": "groups_per_step", "maxStaleness": "max_staleness",
		"stale": "", "xyz": "", "": "",
	} {
		if got := nearest(word, known); got != want {
			t.Errorf("nearest(%q) = %q, want %q", word, got, want)
		}
	}
}
