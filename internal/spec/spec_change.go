package spec

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/settings"
)

// Change is an operator's change of a running run: a JSON merge patch (RFC 7396) on its spec, and whether it launches
// groups. On the wire and in histories keys that are older than this have their aliases: {"depth":4,"paused":false}
// says the same as {"buffer":{"depth":4},"paused":false}.
type Change struct {
	Set    Values
	Paused *bool
}

// maxSet bounds the keys of a change, and with them the faults of one.
const maxSet = 100

// Values are values by path, as JSON has them; nil is the default.
type Values map[string]any

// Pause is the change that pauses a run, or lets it go on.
func Pause(paused bool) Change { return Change{Paused: &paused} }

// Empty reports whether nothing is changed.
func (c Change) Empty() bool { return len(c.Set) == 0 && c.Paused == nil }

// MarshalJSON writes a merge patch; keys that have an alias are written as every earlier version reads them, defaults
// as the values that they are. Only how many min_samples are by default depends on the run.
func (c Change) MarshalJSON() ([]byte, error) {
	patch := map[string]any{}
	if c.Paused != nil {
		patch["paused"] = *c.Paused
	}
	for path, value := range c.Set {
		key, _ := keys.Key(path)
		if key.Alias != "" && value == nil && path != "group.min_samples" {
			var s rollout.Spec
			key.SetDefault(&s)
			value = key.Of(&s).Interface()
		}
		if key.Alias != "" && value != nil {
			patch[key.Alias] = value
			continue
		}
		put(patch, strings.Split(path, "."), value)
	}
	return json.Marshal(patch)
}

func put(patch map[string]any, path []string, value any) {
	for ; len(path) > 1; path = path[1:] {
		inner, ok := patch[path[0]].(map[string]any)
		if !ok {
			inner = map[string]any{}
			patch[path[0]] = inner
		}
		patch = inner
	}
	patch[path[0]] = value
}

// UnmarshalJSON reads a merge patch, with aliases or without. What no run spec has is kept, for Validate to name it.
func (c *Change) UnmarshalJSON(text []byte) error {
	tree, err := settings.ReadJSON(text)
	if err != nil {
		return err
	}
	patch, ok := tree.(map[string]any)
	if !ok {
		return &settings.Fault{Text: "want a JSON object such as {\"buffer\":{\"depth\":4}}"}
	}
	*c = Change{}
	if paused, given := patch["paused"]; given {
		value, ok := paused.(bool)
		if !ok {
			return &settings.Fault{Path: "paused", Text: "want true or false"}
		}
		c.Paused = &value
		delete(patch, "paused")
	}
	c.Set = Values{}
	if err := c.flatten("", patch); err != nil {
		return err
	}
	if n := len(c.Set); n > maxSet {
		return &settings.Fault{Text: fmt.Sprintf("%d keys; a change has %d at most", n, maxSet)}
	}
	return nil
}

func (c *Change) flatten(above string, patch map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(patch)) {
		path := settings.Join(above, name)
		if key, known := aliased(path); known {
			path = key.Path
		}
		if inner, ok := patch[name].(map[string]any); ok && section(path) {
			if err := c.flatten(path, inner); err != nil {
				return err
			}
			continue
		}
		if _, again := c.Set[path]; again {
			return &settings.Fault{Path: path, Text: "given twice; keep one"}
		}
		c.Set[path] = patch[name]
	}
	return nil
}

// section reports whether a path is that of keys with values.
func section(path string) bool {
	key, known := keys.Key(path)
	return known && key.Of(&rollout.Spec{}).Kind() == reflect.Struct
}

func aliased(name string) (settings.Key, bool) {
	at := slices.IndexFunc(keys.Keys, func(k settings.Key) bool { return k.Alias != "" && k.Alias == name })
	if at < 0 {
		return settings.Key{}, false
	}
	return keys.Keys[at], true
}

// ParseChange reads assignments such as buffer.depth=4.
func ParseChange(assignments []string) (Change, error) {
	c := Change{Set: Values{}}
	var faults settings.Faults
	for _, assignment := range assignments {
		path, text, ok := strings.Cut(assignment, "=")
		ok = ok && path != ""
		if _, again := c.Set[path]; again {
			faults.Add(path, "given twice; keep one")
		}
		if !ok {
			faults.Add("", "%q: want KEY=VALUE, such as buffer.depth=4", assignment)
			continue
		}
		c.Set[path] = word(text)
	}
	if len(faults) == 0 {
		faults = c.Validate()
	}
	return c, faults.Err()
}

// word is what stands behind a key on a command line, as JSON has it.
func word(text string) any {
	tree, err := decode([]byte(text))
	if err != nil || !json.Valid([]byte(text)) {
		return text
	}
	switch tree.(type) {
	case json.Number, bool:
		return tree
	}
	return text
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
func (c Change) Apply(before rollout.Spec) (after rollout.Spec, err error) {
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
func (c Change) into(s *rollout.Spec) (faults settings.Faults) {
	for _, path := range slices.Sorted(maps.Keys(c.Set)) {
		value := c.Set[path]
		key, known := keys.Key(path)
		switch {
		case !known && !strings.HasPrefix(path, "environment."):
			faults.Add(path, "%s", unknown(path))
		case section(path): // it has no keys, or they would be here
			faults = append(faults, keys.Set(s, path, plain(value))...)
		case !key.Live:
			faults.Add(path, "stays as it is while the run goes on; live are %s", strings.Join(liveNames(), ", "))
		case value == nil:
			key.SetDefault(s)
		default:
			faults = append(faults, keys.Set(s, path, plain(value))...)
		}
	}
	if value, set := c.Set["group.min_samples"]; set && value == nil {
		s.Group.MinSamples = followed(s.Group.Samples)
	}
	return faults
}

// unknown says what somebody who wrote an unknown key may have meant, aliases included.
func unknown(path string) string {
	var aliases []string
	for _, key := range Live() {
		aliases = append(aliases, key.Alias)
	}
	if key, meant := aliased(settings.Nearest(path, aliases)); meant {
		return "unknown key; did you mean " + key.Path + "?"
	}
	section, name := "", path
	if dot := strings.LastIndex(path, "."); dot >= 0 {
		section, name = path[:dot], path[dot+1:]
	}
	return keys.Unknown(section, name)
}

func liveNames() []string {
	var names []string
	for _, key := range Live() {
		names = append(names, key.Path)
	}
	return names
}

// plain is a value as JSON has it: a change that was built by a program holds Go's types.
func plain(value any) any {
	text, err := json.Marshal(value)
	if err != nil {
		return settings.Omitted{}
	}
	tree, err := decode(text)
	if err != nil {
		return settings.Omitted{}
	}
	return tree
}

// Edit is a value of a running run that was changed.
type Edit struct{ Path, Before, After string }

// Edits is what of the keys that a change names is how before it, and after it, in the order of the rows.
func (c Change) Edits(before, after rollout.Spec) []Edit {
	var edits []Edit
	for _, key := range Live() {
		if _, set := c.Set[key.Path]; set {
			edits = append(edits, Edit{key.Path, key.Text(&before), key.Text(&after)})
		}
	}
	return edits
}

// Describe is the change as an operator would write it, with what was there before.
func (c Change) Describe(before, after rollout.Spec) string {
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
func Facts(s rollout.Spec) map[string]string {
	facts := map[string]string{}
	for _, key := range Live() {
		facts[key.Path] = key.Text(&s)
	}
	return facts
}
