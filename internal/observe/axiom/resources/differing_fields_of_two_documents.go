package resources

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// differences lists where Axiom's state differs from the wanted one. Only wanted keys are compared: Axiom's additions
// are no difference, and keys in except are Axiom's to decide.
func differences(want any, have json.RawMessage, except ...string) ([]string, error) {
	text, err := json.Marshal(want)
	if err != nil {
		return nil, err
	}
	var w, h any
	if err := json.Unmarshal(text, &w); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(have, &h); err != nil {
		return nil, err
	}
	if m, ok := w.(map[string]any); ok {
		for _, name := range except {
			delete(m, name)
		}
	}
	return compare(w, h, ""), nil
}

func compare(want, have any, at string) []string {
	switch w := want.(type) {
	case map[string]any:
		h, ok := have.(map[string]any)
		if !ok {
			return []string{changed(at, want, have)}
		}
		var diff []string
		for _, name := range slices.Sorted(maps.Keys(w)) {
			diff = append(diff, compare(w[name], h[name], strings.TrimPrefix(at+"."+name, "."))...)
		}
		return diff
	case []any:
		h, _ := have.([]any)
		if len(w) != len(h) {
			return []string{fmt.Sprintf("%s: %d instead of %d", at, len(w), len(h))}
		}
		var diff []string
		for i := range w {
			diff = append(diff, compare(w[i], h[i], fmt.Sprintf("%s[%s]", at, label(w[i], i)))...)
		}
		return diff
	}
	if want != have && !(have == nil && (want == "" || want == false)) {
		return []string{changed(at, want, have)}
	}
	return nil
}

// label names an element of a list by its id, where it has one.
func label(element any, i int) string {
	if m, ok := element.(map[string]any); ok {
		for _, key := range []string{"id", "i"} {
			if id, ok := m[key].(string); ok {
				return id
			}
		}
	}
	return fmt.Sprint(i)
}

// changed is one line: where, what it is, and what it will be, each shortened to where they part.
func changed(at string, want, have any) string {
	w, h := written(want), written(have)
	if len(w)+len(h) > 120 {
		same := 0
		for same < min(len(w), len(h)) && w[same] == h[same] {
			same++
		}
		from := max(0, same-15)
		w, h = cut(w, from), cut(h, from)
	}
	return fmt.Sprintf("%s: %s -> %s", at, h, w)
}

func written(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}

func cut(text string, from int) string {
	runes := []rune(strings.ToValidUTF8(text[min(from, len(text)):], ""))
	out := string(runes[:min(len(runes), 45)])
	if from > 0 {
		out = "..." + out
	}
	if len(runes) > 45 {
		out += "..."
	}
	return out
}
