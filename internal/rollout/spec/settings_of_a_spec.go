package spec

import (
	"encoding/json"
	"reflect"
	"strings"

	"github.com/millrace/millrace/internal/rollout/runspec"
)

// Setting is one key of a spec with what it holds there.
type Setting struct {
	Key, Value, Doc string
	Given           bool // it is not the default
	Live            bool // it may be changed while the run goes on
}

// Settings is what a spec holds, in the table's order: every key that is given or has a default.
func Settings(s runspec.Spec) []Setting {
	var all []Setting
	for _, key := range keys.Keys {
		value := key.Of(&s)
		if !value.IsValid() || key.Path == "environment.kind" { // which stands with its options
			continue
		}
		_, whole := value.Interface().(json.Marshaler)
		if value.Kind() == reflect.Struct && !whole || value.Kind() == reflect.Pointer && value.IsNil() {
			continue // a section, whose keys follow, or one that is not given
		}
		text, err := json.Marshal(value.Interface())
		if err != nil || value.IsZero() && key.Default == nil {
			continue
		}
		given := key.Default == nil || !value.Type().Comparable() || !value.Equal(key.Standard(value.Type()))
		all = append(all, Setting{key.Path, strings.Trim(string(text), `"`), key.Doc, given, key.Live})
	}
	return all
}
