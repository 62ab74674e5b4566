package environments

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/rollout/runspec"
)

// TestLeagueOptions: an opponent that the league draws is judged as a version, and its bot as the environment knows it.
func TestLeagueOptions(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		kind, options, bot, fault string
	}{
		{"tictactoe", `{"opponent":"league:past"}`, "random", ""},
		{"tictactoe", `{"opponent":"league:past"}`, "clever", "league.bot"},
		{"diplomacy", `{"train":["FRANCE"],"opponents":{"RUSSIA":"league:past","ITALY":"policy:lost"}}`, "", "policy:lost"},
		{"diplomacy", `{"train":["FRANCE"],"opponents":{"RUSSIA":"league:past"}}`, "dumb", ""},
		{"diplomacy", `{"train":["FRANCE"],"opponents":{"RUSIA":"league:past"}}`, "", "no such power"},
		{"diplomacy", `{"train":["FRANCE"],"opponents":{"FRANCE":"league:past"}}`, "", "is trained"},
	} {
		spec := runspec.Spec{Environment: runspec.Environment{Kind: tt.kind, Options: json.RawMessage(tt.options)},
			League: runspec.League{Slots: 1, Bot: tt.bot}}
		err := CheckOpponents("run", spec)
		if (err == nil) != (tt.fault == "") || err != nil && !strings.Contains(err.Error(), tt.fault) {
			t.Errorf("%s, bot %q: %v, want %q", tt.options, tt.bot, err, tt.fault)
		}
		if _, err := Builder(nil, nil)(spec.Environment); (err == nil) != (tt.fault == "" || tt.bot != "" ||
			tt.fault == "policy:lost") {
			t.Errorf("%s: %v", tt.options, err)
		}
	}
}

// TestEvaluationOfLeagueRun: whom the league draws does not matter where one opponent plays all others.
func TestEvaluationOfLeagueRun(t *testing.T) {
	t.Parallel()
	for kind, options := range map[string]string{
		"tictactoe": `{"opponent":"league:past"}`,
		"diplomacy": `{"train":["FRANCE","TURKEY"],"opponents":{"RUSSIA":"league:past"}}`,
	} {
		env, err := Against(runspec.Environment{Kind: kind, Options: json.RawMessage(options)}, "random", "")
		if err != nil || env.HasLeague() {
			t.Errorf("%s is evaluated with %s: %v", kind, env.Options, err)
		}
	}
}
