package cli

import (
	"slices"
	"strconv"
	"strings"

	"github.com/millrace/millrace/internal/rollout"
)

// setters are the fields of a running run that can be changed, by the names that the run spec has for them.
var setters = map[string]func(*rollout.Change, string) error{
	"buffer.depth":           func(c *rollout.Change, v string) error { return whole(&c.Depth, v) },
	"buffer.groups_per_step": func(c *rollout.Change, v string) error { return whole(&c.GroupsPerStep, v) },
	"buffer.max_staleness":   func(c *rollout.Change, v string) error { return whole(&c.MaxStaleness, v) },
	"buffer.on_stale":        setOnStale,
	"group.samples":          func(c *rollout.Change, v string) error { return whole(&c.Samples, v) },
	"group.min_samples":      func(c *rollout.Change, v string) error { return whole(&c.MinSamples, v) },
	"steps":                  func(c *rollout.Change, v string) error { return whole(&c.Steps, v) },
}

func whole[N int | int64](field **N, value string) error {
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil || n < 0 {
		return usage("%q is not a whole number", value)
	}
	v := N(n)
	*field = &v
	return nil
}

func setOnStale(c *rollout.Change, value string) error {
	policy := rollout.OnStale(value)
	if policy != rollout.DropStale && policy != rollout.KeepStale {
		return usage("%q: want %s or %s", value, rollout.DropStale, rollout.KeepStale)
	}
	c.OnStale = &policy
	return nil
}

// settable lists the fields for help and errors.
func settable() string {
	names := make([]string, 0, len(setters))
	for name := range setters {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// parseChange reads assignments such as buffer.depth=4.
func parseChange(assignments []string) (rollout.Change, error) {
	var c rollout.Change
	seen := map[string]bool{}
	for _, a := range assignments {
		name, value, ok := strings.Cut(a, "=")
		set, known := setters[name]
		switch {
		case !ok:
			return c, usage("%q: want FIELD=VALUE, such as buffer.depth=4", a)
		case !known:
			return c, usage("a running run has no field %q to set; it has %s", name, settable())
		}
		if seen[name] {
			return c, usage("%s is set twice", name)
		}
		seen[name] = true
		if err := set(&c, value); err != nil {
			return c, usage("%s: %v", name, err)
		}
	}
	return c, nil
}
