package runcompare

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/rollout/runspec"
)

// Setting is a key of the spec that differs.
type Setting struct {
	Key string `json:"key"`
	A   string `json:"a"`
	B   string `json:"b"`
}

// Settings is how two specs differ, but for their names.
func Settings(a, b runspec.Spec) []Setting {
	x, y := flat(a), flat(b)
	keys := map[string]bool{}
	for k := range x {
		keys[k] = true
	}
	for k := range y {
		keys[k] = true
	}
	out := []Setting{}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		if k != "name" && x[k] != y[k] {
			out = append(out, Setting{k, cmp.Or(x[k], "-"), cmp.Or(y[k], "-")})
		}
	}
	return out
}

// flat is a spec's values by their path, lists as they are written in JSON.
func flat(s runspec.Spec) map[string]string {
	b, err := json.Marshal(s)
	if err != nil {
		return nil
	}
	var tree map[string]any
	if json.Unmarshal(b, &tree) != nil {
		return nil
	}
	out := map[string]string{}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		if m, is := v.(map[string]any); is {
			for k, inner := range m {
				walk(strings.TrimPrefix(path+"."+k, "."), inner)
			}
			return
		}
		text, err := json.Marshal(v)
		if err == nil {
			out[path] = strings.Trim(string(text), `"`)
		}
	}
	walk("", tree)
	return out
}
