package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/millrace/millrace/internal/rollout"
)

// setting is a field of a running run that can be changed, under the name that the run spec has for it.
type setting struct {
	name  string
	value string // what it takes, for help
	set   func(*rollout.Change, string) error
}

// settings are in the order of the run spec.
var settings = []setting{
	{"steps", "N", func(c *rollout.Change, v string) error { return whole(&c.Steps, v) }},
	{"group.samples", "N", func(c *rollout.Change, v string) error { return whole(&c.Samples, v) }},
	{"group.min_samples", "N", func(c *rollout.Change, v string) error { return whole(&c.MinSamples, v) }},
	{"group.oversample", "N", func(c *rollout.Change, v string) error { return whole(&c.Oversample, v) }},
	{"group.grace", "DURATION, such as 30s; 0s: games end by themselves", func(c *rollout.Change, v string) error { return duration(&c.Grace, v) }},
	{"group.zero_variance", "keep or drop", func(c *rollout.Change, v string) error {
		return oneOf(&c.ZeroVariance, v, rollout.KeepFlat, rollout.DropFlat)
	}},
	{"buffer.depth", "N", func(c *rollout.Change, v string) error { return whole(&c.Depth, v) }},
	{"buffer.groups_per_step", "N", func(c *rollout.Change, v string) error { return whole(&c.GroupsPerStep, v) }},
	{"buffer.max_staleness", "N", func(c *rollout.Change, v string) error { return whole(&c.MaxStaleness, v) }},
	{"buffer.on_stale", "drop, keep or wait", func(c *rollout.Change, v string) error {
		return oneOf(&c.OnStale, v, rollout.DropStale, rollout.KeepStale, rollout.WaitStale)
	}},
	{"buffer.max_bytes", "BYTES, such as 500MiB or 2GiB; 0: no bound", func(c *rollout.Change, v string) error { return byteCount(&c.MaxBytes, v) }},
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

func oneOf[T ~string](field **T, value string, allowed ...T) error {
	names := make([]string, len(allowed))
	for i, one := range allowed {
		if value == string(one) {
			*field = &one
			return nil
		}
		names[i] = string(one)
	}
	last := len(names) - 1
	return usage("%q: want %s or %s", value, strings.Join(names[:last], ", "), names[last])
}

func duration(field **rollout.Duration, value string) error {
	var d rollout.Duration
	if err := d.UnmarshalText([]byte(value)); err != nil || d < 0 {
		return usage("%q: want a duration such as 90s, 15m or 1h30m", value)
	}
	*field = &d
	return nil
}

// byteUnits are the units that bytes may have. Powers of 1000 are left out: a bound that is 7 % off helps nobody.
var byteUnits = []struct {
	name string
	size float64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}}

// bytesText is a number of bytes for the eye.
func bytesText(n int64) string {
	for i := len(byteUnits) - 1; i >= 0; i-- {
		if unit := byteUnits[i]; float64(n) >= unit.size {
			return fmt.Sprintf("%.1f %s", float64(n)/unit.size, unit.name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}

func byteCount(field **int64, value string) error {
	figure, size := value, 1.0
	for _, unit := range byteUnits {
		if cut, ok := strings.CutSuffix(value, unit.name); ok {
			figure, size = strings.TrimSpace(cut), unit.size
		}
	}
	v, err := strconv.ParseFloat(figure, 64)
	if n := v * size; err == nil && n >= 0 && n < 1<<62 && (size > 1 || n == math.Trunc(n)) {
		whole := int64(n)
		*field = &whole
		return nil
	}
	return usage("%q: want bytes, or a number of KiB, MiB, GiB or TiB, such as 2GiB", value)
}

// settable lists the fields for errors.
func settable() string {
	names := make([]string, len(settings))
	for i, s := range settings {
		names[i] = s.name
	}
	return strings.Join(names, ", ")
}

// settingsHelp lists the fields with what they take.
func settingsHelp() string {
	var b strings.Builder
	for _, s := range settings {
		fmt.Fprintf(&b, "  %s=%s\n", s.name, s.value)
	}
	return b.String()
}

func settingOf(name string) (setting, bool) {
	for _, s := range settings {
		if s.name == name {
			return s, true
		}
	}
	return setting{}, false
}

// parseChange reads assignments such as buffer.depth=4.
func parseChange(assignments []string) (rollout.Change, error) {
	var c rollout.Change
	seen := map[string]bool{}
	for _, a := range assignments {
		name, value, ok := strings.Cut(a, "=")
		field, known := settingOf(name)
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
		if err := field.set(&c, value); err != nil {
			return c, usage("%s: %v", name, err)
		}
	}
	return c, nil
}
