package scaling

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/kit/settings/settingstest"
)

// TestEverySettingHasItsRow: a new field of the configuration is documented in the table, or this fails.
func TestEverySettingHasItsRow(t *testing.T) {
	t.Parallel()
	settingstest.Hold(t, Keys, reflect.TypeFor[Config]())
	if key, _ := Keys.Key("max"); *key.Max != MostEngines {
		t.Errorf("max: the bound is not %d", MostEngines)
	}
}

// What an operator sets holds over the configuration, key by key, whatever way it took: a merge patch, a command line,
// a workflow's history.
func TestOverrides(t *testing.T) {
	t.Parallel()
	var configured Config
	for _, key := range Keys.Keys {
		if key.Default != nil {
			key.SetDefault(&configured)
		}
	}
	configured.Max = 8
	for _, tt := range []struct {
		name, before, change string
		want                 func(*Config)
		set                  []string
		faults               string
	}{
		{"two keys", `{}`, `{"min":2,"max":4}`, func(c *Config) { c.Min, c.Max = 2, 4 }, []string{"min", "max"}, ""},
		{"a section", `{"min":2}`, `{"policy":"queue","queue":{"target_inputs":8}}`, func(c *Config) {
			c.Min, c.Policy, c.Queue.TargetInputs = 2, Queue, 8
		}, []string{"policy", "min", "queue.target_inputs"}, ""},
		{"given back", `{"min":2,"max":4}`, `{"min":null}`, func(c *Config) { c.Max = 4 }, []string{"max"}, ""},
		{"reset", `{"min":2,"max":4}`, `{"reset":true}`, func(*Config) {}, nil, ""},
		{"reset and set", `{"min":2}`, `{"reset":true,"max":3}`, func(c *Config) { c.Max = 3 }, []string{"max"}, ""},
		{"a duration", `{}`, `{"scale_to_zero":"15m"}`, func(c *Config) { _ = c.ScaleToZero.UnmarshalText([]byte("15m")) },
			[]string{"scale_to_zero"}, ""},
		{"a section given back", `{"max":4,"queue":{"target_inputs":8,"buffer":1}}`, `{"queue":null}`,
			func(c *Config) { c.Max = 4 }, []string{"max"}, ""},
		{"unknown", `{}`, `{"mini":2}`, nil, nil, "mini: unknown key; did you mean min?"},
		{"unknown below", `{}`, `{"queue":{"target":2}}`, nil, nil, "queue.target: unknown key"},
		{"no number", `{}`, `{"min":"two"}`, nil, nil, "min: want a whole number"},
		{"out of bounds", `{}`, `{"max":5000}`, nil, nil, "max: 5000 is more than 1024"},
		{"against each other", `{}`, `{"min":9}`, nil, nil, "max: 8 is less than min, which is 9"},
		{"a section as a value", `{}`, `{"queue":3}`, nil, nil, "queue: is a section"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var before, change SettingsChange
			for _, read := range []struct {
				text string
				into *SettingsChange
			}{{tt.before, &before}, {tt.change, &change}} {
				if err := json.Unmarshal([]byte(read.text), read.into); err != nil {
					t.Fatal(err)
				}
			}
			text, err := json.Marshal(before.Set.After(change))
			if err != nil {
				t.Fatal(err)
			}
			var after Overrides // as a workflow reads it, with floats
			if err := json.Unmarshal(text, &after); err != nil {
				t.Fatal(err)
			}
			err = after.Check(configured)
			if tt.faults != "" {
				if err == nil || !strings.Contains(err.Error(), tt.faults) {
					t.Errorf("got %v, want %q", err, tt.faults)
				}
				return
			}
			want := configured
			tt.want(&want)
			if got := after.Over(configured); err != nil || got != want || !reflect.DeepEqual(after.Names(), tt.set) {
				t.Errorf("got %+v, %v, %v; want %+v, %v", got, after.Names(), err, want, tt.set)
			}
		})
	}
}

func TestParseSettings(t *testing.T) {
	t.Parallel()
	c, err := ParseSettings([]string{"min=2", "queue.target_inputs=8", "policy=queue", "price="})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(c)
	const want = `{"min":2,"policy":"queue","price":null,"queue":{"target_inputs":8}}`
	if err != nil || string(text) != want {
		t.Errorf("got %s, %v; want %s", text, err, want)
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"min", "max=1", "max=2"}, `"min": want KEY=VALUE, such as min=2; max: given twice; keep one`},
		{[]string{"mxa="}, "mxa: unknown key; did you mean max?"},
		{[]string{"queue.bufer="}, "queue.bufer: unknown key; did you mean queue.buffer?"},
	} {
		if _, err := ParseSettings(tt.args); err == nil || err.Error() != tt.want {
			t.Errorf("%v: %v, want %s", tt.args, err, tt.want)
		}
	}
}
