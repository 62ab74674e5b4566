package scaling

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/kit/settings"
)

// Overrides are the settings that an operator has set while the service ran, by path, as JSON has them. They hold
// instead of the configuration's.
type Overrides map[string]any

// SettingsChange is an operator's change while the service runs. On the wire it is a JSON merge patch (RFC 7396) of a
// Config's keys, {"min":2,"queue":{"target_inputs":8}}. null returns a key to its configured value, and {"reset":true}
// returns all of them, before others are set.
type SettingsChange struct {
	Set   Overrides // nil values are given back
	Reset bool
}

// Empty reports whether nothing is changed.
func (c SettingsChange) Empty() bool { return len(c.Set) == 0 && !c.Reset }

// MarshalJSON writes a merge patch.
func (c SettingsChange) MarshalJSON() ([]byte, error) {
	patch := settings.Patch{}
	maps.Copy(patch, c.Set)
	if c.Reset {
		patch["reset"] = true
	}
	return json.Marshal(patch)
}

// UnmarshalJSON reads a merge patch. What no key means is kept, for Override to name it.
func (c *SettingsChange) UnmarshalJSON(text []byte) error {
	patch, err := Keys.ReadPatch(&Config{}, text)
	if err != nil {
		return err
	}
	*c = SettingsChange{Set: Overrides{}}
	if reset, given := patch["reset"]; given {
		var ok bool
		if c.Reset, ok = reset.(bool); !ok {
			return &settings.Fault{Path: "reset", Text: "want true or false"}
		}
		delete(patch, "reset")
	}
	for path, value := range patch {
		c.set(path, value)
	}
	return nil
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

func isSection(path string) bool { return Keys.IsSection(&Config{}, path) }

// Faults are the keys that a change names and that there are not, also those that it gives back: no configuration
// would miss them. Values are judged where they come into force (Overrides.Check).
func (c SettingsChange) Faults() settings.Faults {
	var faults settings.Faults
	for _, path := range slices.Sorted(maps.Keys(c.Set)) {
		if _, known := Keys.Key(path); !known {
			faults.Add(path, "%s", Keys.UnknownPath(path))
		}
	}
	return faults
}

// ParseSettings reads assignments such as min=2 and queue.target_inputs=8; KEY= gives a key back to the configuration.
func ParseSettings(assignments []string) (SettingsChange, error) {
	given := settings.Patch{}
	faults := given.Assign(assignments, "min=2")
	c := SettingsChange{Set: Overrides{}}
	for path, value := range given {
		if value == "" {
			value = nil
		}
		c.set(path, value)
	}
	return c, append(faults, c.Faults()...).Err()
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
		o[name] = settings.Plain(key.Of(&c).Interface())
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

// Over is a configuration with the overrides applied, unchecked: unreadable values stay as configured.
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
	faults := Keys.Into(&c, settings.Patch(o), func(path string) string {
		if _, known := Keys.Key(path); !known {
			return Keys.UnknownPath(path)
		}
		if isSection(path) {
			return "is a section: set its keys, such as " + firstBelow(path)
		}
		return ""
	})
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
