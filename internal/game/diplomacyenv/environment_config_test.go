package diplomacyenv

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/game/diplomacyenv/bot"
)

func TestFromOptions(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, options string
		change        func(*Config)
	}{
		{"nothing", ``, func(*Config) {}},
		{"an empty object", `{}`, func(*Config) {}},
		{"one key leaves the others", `{"horizon_years":2}`, func(c *Config) { c.HorizonYears = 2 }},
		{"all powers", `{"train":"all"}`, func(*Config) {}},
		{"some powers", `{"train":["ITALY"],"opponents":{"FRANCE":"hold"}}`, func(c *Config) {
			c.Train, c.Opponents = Train{Powers: []string{"ITALY"}}, map[string]bot.Name{"FRANCE": "hold"}
		}},
		{"deep keys leave their neighbours",
			`{"warmup_phases":{"max":4},"prompt":{"threats":true},"reward":{"step_final":{"step_unit":9}}}`, func(c *Config) {
				c.WarmupPhases.Max, c.Prompt.Threats, c.Reward.StepFinal.StepUnit = 4, true, 9
			}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			want := DefaultConfig()
			tt.change(&want)
			if got := newEnv(t, tt.options).cfg; !reflect.DeepEqual(got, want) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}

// Every fault is told, each with its key.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		options string
		want    []string
	}{
		{`{"colour_of_the_sea":3}`,
			[]string{"colour_of_the_sea: no such key (there are constraint, horizon_years, opponents, prompt,"}},
		{`{"horizon_year":3}`, []string{"horizon_year: no such key (did you mean horizon_years?)"}},
		{`{"prompt":{"neighbors":true},"reward":{"step_final":{"step_centre":1}},"x":1}`, []string{
			"prompt.neighbors: no such key (did you mean neighbours?)",
			"reward.step_final.step_centre: no such key (did you mean step_center?)",
			"x: no such key",
		}},
		{`{"horizon_years":"three"}`, []string{"horizon_years: want int, not a string"}},
		{`{"prompt":{"threats":1}}`, []string{"prompt.threats: want bool"}},
		{`{"train":"none"}`, []string{`train: "none" is neither "all" nor a list of powers`}},
		{`{"horizon_years":0,"warmup_phases":{"min":2,"max":1},"warmup_bot":"deep","train":[],"constraint":"json","prompt":{"history_phases":-1,"chat_template":"hello"},"reward":{"kind":"gold"}}`, []string{
			"horizon_years: 0", "warmup_phases: min 2 and max 1",
			`warmup_bot: no bot "deep" (there are hold, random, chaos, dumb)`,
			`train: want "all" or`, `constraint: "json"`, "prompt.history_phases: -1", "prompt.chat_template: want {user} once",
			`reward.kind: "gold"`,
		}},
		{`{"horizon_years":1,"warmup_phases":{"max":1}}`, []string{"warmup_phases.max: 1, but horizon_years: 1"}},
		{`{"opponents":{"ITALY":"dumb"}}`, []string{"opponents.ITALY: the power is trained"}},
		{`{"train":["ITALIA","FRANCE","FRANCE"],"opponents":{"SPAIN":"hold"}}`,
			[]string{`train[0]: no power "ITALIA"`, "train[2]: FRANCE is listed twice", "opponents.SPAIN: no such power"}},
		{`{"prompt":{"chat_template":"{user} {system}"}}`, []string{"want {system} before {user}"}},
		{`{"reward":{"kind":"step_final","step_final":{"leader_gap_scale":0,"step_weight":0,"final_weight":0}}}`,
			[]string{"reward.step_final: step_weight 0", "reward.step_final.leader_gap_scale: 0"}},
		{`{"start":{"name":"S1901X","units":{},"centers":{}}}`, []string{"start: phase"}},
		{`[]`, []string{"cannot unmarshal array"}},
	} {
		_, err := FromOptions(json.RawMessage(tt.options))
		if err == nil {
			t.Errorf("%s: no error", tt.options)
			continue
		}
		for _, want := range tt.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s:\n%v\nmisses %q", tt.options, err, want)
			}
		}
	}
}

// What a configuration is written as is read as the same configuration.
func TestConfigRoundTrip(t *testing.T) {
	t.Parallel()
	for _, options := range []string{``, `{"train":["FRANCE"],"opponents":{"ITALY":"chaos"},"constraint":"grammar"}`} {
		want := newEnv(t, options).cfg
		b, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		if got := newEnv(t, string(b)).cfg; !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	}
}
