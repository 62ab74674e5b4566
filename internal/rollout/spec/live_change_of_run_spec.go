package spec

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/kit/settings"

	"github.com/millrace/millrace/internal/rollout/runspec"
)

// Change is an operator's change of a running run: a JSON merge patch (RFC 7396) on its spec, and whether it launches
// groups, {"buffer":{"depth":4},"paused":false}.
type Change struct {
	Set    settings.Patch
	Paused *bool
}

// maxSet bounds the keys of a change, and with them the faults of one.
const maxSet = 100

// Pause is the change that pauses a run, or lets it go on.
func Pause(paused bool) Change { return Change{Paused: &paused} }

// Empty reports whether nothing is changed.
func (c Change) Empty() bool { return len(c.Set) == 0 && c.Paused == nil }

// MarshalJSON writes a merge patch.
func (c Change) MarshalJSON() ([]byte, error) {
	patch := maps.Clone(c.Set)
	if c.Paused != nil {
		if patch == nil {
			patch = settings.Patch{}
		}
		patch["paused"] = *c.Paused
	}
	return json.Marshal(patch)
}

// UnmarshalJSON reads a merge patch. What no run spec has is kept, for Validate to name it.
func (c *Change) UnmarshalJSON(text []byte) error {
	set, err := keys.ReadPatch(&runspec.Spec{}, text)
	if err != nil {
		return err
	}
	*c = Change{Set: set}
	if paused, given := set["paused"]; given {
		value, ok := paused.(bool)
		if !ok {
			return &settings.Fault{Path: "paused", Text: "want true or false"}
		}
		c.Paused = &value
		delete(set, "paused")
	}
	if n := len(set); n > maxSet {
		return &settings.Fault{Text: fmt.Sprintf("%d keys; a change has %d at most", n, maxSet)}
	}
	return nil
}

// section reports whether a path is that of keys with values.
func section(path string) bool { return keys.IsSection(&runspec.Spec{}, path) }

// ParseChange reads assignments such as buffer.depth=4.
func ParseChange(assignments []string) (Change, error) {
	c := Change{Set: settings.Patch{}}
	faults := c.Set.Assign(assignments, "buffer.depth=4")
	if len(faults) == 0 {
		faults = c.Validate()
	}
	return c, faults.Err()
}

// Validate reports everything that is wrong with a change whatever run it is for, and makes every value what the run
// spec would have.
func (c Change) Validate() settings.Faults {
	s := Default()
	faults := c.into(&s)
	for _, f := range keys.Check(&s, settings.Reading{Given: c.given, Faults: faults}) {
		if _, set := c.Set[f.Path]; set {
			faults = append(faults, f)
		}
	}
	for path, value := range c.Set {
		if key, _ := keys.Key(path); key.Live && value != nil && !faults.Has(path) {
			c.Set[path] = key.Of(&s).Interface()
		}
	}
	return faults
}

// Apply is a spec after the change. Whether the run is paused is no part of a spec. The error is everything that the
// change does wrong: what was wrong before is not its fault. The spec is as changed even then, as far as the values
// could be read.
func (c Change) Apply(before runspec.Spec) (after runspec.Spec, err error) {
	after = before
	faults := c.into(&after)
	judged := before
	keys.FillWords(&judged) // no word meant its default, before
	known := Validate(judged, settings.Reading{})
	c.into(&judged)
	for _, f := range Validate(judged, settings.Reading{Given: c.given, Faults: faults}) {
		same := func(k *settings.Fault) bool { return *k == *f }
		if !slices.ContainsFunc(known, same) {
			faults = append(faults, f)
		}
	}
	return after, faults.Err()
}

// given reports whether a key has a value after the change, its default apart.
func (c Change) given(path string) bool {
	value, set := c.Set[path]
	return !set || value != nil
}

// into puts the change's values into a spec.
func (c Change) into(s *runspec.Spec) settings.Faults {
	faults := keys.Into(s, c.Set, func(path string) string {
		key, known := keys.Key(path)
		switch {
		case !known && !strings.HasPrefix(path, "environment."):
			return keys.UnknownPath(path)
		case !key.Live && !section(path):
			return "stays as it is while the run goes on; live are " + strings.Join(liveNames(), ", ")
		}
		return ""
	})
	if value, set := c.Set["group.min_samples"]; set && value == nil {
		s.Group.MinSamples = followed(s.Group.Samples)
	}
	return faults
}

func liveNames() []string {
	var names []string
	for _, key := range Live() {
		names = append(names, key.Path)
	}
	return names
}

// Edit is a value of a running run that was changed.
type Edit struct{ Path, Before, After string }

// Edits is what of the keys that a change names is how before it, and after it, in the order of the rows.
func (c Change) Edits(before, after runspec.Spec) []Edit {
	var edits []Edit
	for _, key := range Live() {
		if _, set := c.Set[key.Path]; set {
			edits = append(edits, Edit{key.Path, key.Text(&before), key.Text(&after)})
		}
	}
	return edits
}

// Describe is the change as an operator would write it, with what was there before.
func (c Change) Describe(before, after runspec.Spec) string {
	var parts []string
	for i, e := range c.Edits(before, after) {
		if i == 0 {
			parts = append(parts, "set")
		}
		parts = append(parts, fmt.Sprintf("%s=%s (was %s)", e.Path, e.After, e.Before))
	}
	switch {
	case c.Paused != nil && *c.Paused:
		parts = append(parts, "pause")
	case c.Paused != nil:
		parts = append(parts, "resume")
	}
	return strings.Join(parts, " ")
}

// Facts is every live value of a spec by its path, for records of what was changed.
func Facts(s runspec.Spec) map[string]string {
	facts := map[string]string{}
	for _, key := range Live() {
		facts[key.Path] = key.Text(&s)
	}
	return facts
}
