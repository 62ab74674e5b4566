package scaling

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/settings"
)

// Overrides are the settings that an operator has set while the service ran, by path, as JSON has them. They hold
// instead of the configuration's.
type Overrides map[string]any

// SettingsChange is what an operator asks for while the service runs. On the wire it is a JSON merge patch (RFC 7396)
// of a Config's keys, {"min":2,"queue":{"target_inputs":8}}, where null gives a key back to the configuration, and
// {"reset":true} all of them, before others are set.
type SettingsChange struct {
	Set   Overrides // nil values are given back
	Reset bool
}

// Empty reports whether nothing is changed.
func (c SettingsChange) Empty() bool { return len(c.Set) == 0 && !c.Reset }

// MarshalJSON writes a merge patch.
func (c SettingsChange) MarshalJSON() ([]byte, error) {
	patch := map[string]any{}
	if c.Reset {
		patch["reset"] = true
	}
	for path, value := range c.Set {
		section, name, below := strings.Cut(path, ".")
		if !below {
			patch[path] = value
			continue
		}
		inner, ok := patch[section].(map[string]any)
		if !ok {
			inner = map[string]any{}
			patch[section] = inner
		}
		inner[name] = value
	}
	return json.Marshal(patch)
}

// UnmarshalJSON reads a merge patch. What no key means is kept, for Override to name it.
func (c *SettingsChange) UnmarshalJSON(text []byte) error {
	tree, err := settings.ReadJSON(text)
	if err != nil {
		return err
	}
	patch, ok := tree.(map[string]any)
	if !ok {
		return &settings.Fault{Text: `want a JSON object such as {"min":2,"max":8}`}
	}
	*c = SettingsChange{Set: Overrides{}}
	if reset, given := patch["reset"]; given {
		if c.Reset, ok = reset.(bool); !ok {
			return &settings.Fault{Path: "reset", Text: "want true or false"}
		}
		delete(patch, "reset")
	}
	c.flatten("", patch)
	return nil
}

func (c *SettingsChange) flatten(above string, patch map[string]any) {
	for name, value := range patch {
		path := settings.Join(above, name)
		inner, isObject := value.(map[string]any)
		if isObject && isSection(path) {
			c.flatten(path, inner)
			continue
		}
		c.set(path, value)
	}
}

// set puts a value into a change; a section without one is given back key by key.
func (c *SettingsChange) set(path string, value any) {
	if value != nil || !isSection(path) {
		c.Set[path] = value
		return
	}
	for _, key := range Keys.Keys {
		if strings.HasPrefix(key.Path, path+".") {
			c.Set[key.Path] = nil
		}
	}
}

func isSection(path string) bool {
	key, known := Keys.Key(path)
	return known && key.Of(&Config{}).Kind() == reflect.Struct
}

// Faults are the keys that a change names and that there are not, also those that it gives back: no configuration
// would miss them. Values are judged where they come into force (Overrides.Check).
func (c SettingsChange) Faults() settings.Faults {
	var faults settings.Faults
	for _, path := range slices.Sorted(maps.Keys(c.Set)) {
		if _, known := Keys.Key(path); !known {
			faults.Add(path, "%s", unknown(path))
		}
	}
	return faults
}

func unknown(path string) string {
	dot := strings.LastIndex(path, ".")
	return Keys.Unknown(path[:max(0, dot)], path[dot+1:])
}

// ParseSettings reads assignments such as min=2 and queue.target_inputs=8; KEY= gives a key back to the configuration.
func ParseSettings(assignments []string) (SettingsChange, error) {
	c := SettingsChange{Set: Overrides{}}
	var faults settings.Faults
	for _, assignment := range assignments {
		path, text, ok := strings.Cut(assignment, "=")
		_, again := c.Set[path]
		switch {
		case !ok || path == "":
			faults.Add("", "%q: want KEY=VALUE, such as min=2", assignment)
		case again:
			faults.Add(path, "given twice; keep one")
		case text == "":
			c.set(path, nil)
		default:
			c.Set[path] = word(text)
		}
	}
	return c, append(faults, c.Faults()...).Err()
}

// word is what stands behind a key on a command line, as JSON has it.
func word(text string) any {
	if json.Valid([]byte(text)) {
		if tree, err := settings.ReadJSON([]byte(text)); err == nil {
			if number, ok := tree.(json.Number); ok {
				return number
			}
		}
	}
	return text
}

// OverridesIn is the overrides of some settings, by path, that a configuration has in it. What cannot be read is left
// out.
func OverridesIn(c Config, names []string) Overrides {
	o := Overrides{}
	for _, name := range names {
		key, known := Keys.Key(name)
		if !known {
			continue
		}
		text, err := json.Marshal(key.Of(&c).Interface())
		if err != nil {
			continue
		}
		if o[name], err = settings.ReadJSON(text); err != nil {
			delete(o, name)
		}
	}
	return o
}

// After is the overrides after a change.
func (o Overrides) After(c SettingsChange) Overrides {
	after := Overrides{}
	if !c.Reset {
		maps.Copy(after, o)
	}
	for path, value := range c.Set {
		if value == nil {
			delete(after, path)
			continue
		}
		after[path] = value
	}
	return after
}

// Names are the settings that are overridden, in the order of Keys.
func (o Overrides) Names() []string {
	var names []string
	for _, key := range Keys.Keys {
		if _, set := o[key.Path]; set {
			names = append(names, key.Path)
		}
	}
	return names
}

// Over is a configuration with the overrides in it, unchecked: what cannot be read stays as configured.
func (o Overrides) Over(configured Config) Config {
	c, _ := o.into(configured)
	return c
}

// Check reports everything that is wrong with a configuration that has these overrides in it. Its faults have the
// paths of Keys.
func (o Overrides) Check(configured Config) error {
	c, faults := o.into(configured)
	faults = append(faults, Keys.Check(&c, settings.Reading{Faults: faults})...)
	if len(faults) == 0 {
		faults = c.Faults()
	}
	return faults.Err()
}

func (o Overrides) into(c Config) (Config, settings.Faults) {
	var faults settings.Faults
	for _, path := range slices.Sorted(maps.Keys(o)) {
		key, known := Keys.Key(path)
		switch {
		case !known:
			faults.Add(path, "%s", unknown(path))
		case key.Of(&c).Kind() == reflect.Struct:
			faults.Add(path, "is a section: set its keys, such as %s", firstBelow(path))
		default:
			faults = append(faults, Keys.Set(&c, path, plain(o[path]))...)
		}
	}
	return c, faults
}

func firstBelow(section string) string {
	for _, key := range Keys.Keys {
		if strings.HasPrefix(key.Path, section+".") {
			return key.Path
		}
	}
	return section
}

// plain is a value as JSON has it: what went through a workflow holds Go's types.
func plain(value any) any {
	text, err := json.Marshal(value)
	if err != nil {
		return value
	}
	tree, err := settings.ReadJSON(text)
	if err != nil {
		return value
	}
	return tree
}

// Faults are the rules of Validate that a Config breaks, by the paths of Keys.
func (c Config) Faults() settings.Faults {
	var faults settings.Faults
	var joined interface{ Unwrap() []error }
	if !errors.As(c.Validate(), &joined) {
		return nil
	}
	for _, err := range joined.Unwrap() {
		path, text, _ := strings.Cut(strings.TrimPrefix(err.Error(), "scaling."), " ")
		faults.Add(strings.TrimSuffix(path, ":"), "%s", cmp.Or(text, fmt.Sprint(err)))
	}
	return faults
}
