package api_test

import (
	"encoding/json"
	"testing"

	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/rollout"
)

// One caller's runs leave room for others: no more go on than limits.runs, and none has more games outstanding than
// limits.games_per_run, at its start or by a change.
func TestQuotasOfRuns(t *testing.T) {
	t.Parallel()
	games := int(spec().Games())
	f := serve(t, func(c *api.Config, _ *api.Deps) { c.Limits.Runs, c.Limits.GamesPerRun = 1, games })
	post := func(name rollout.RunName, deeper int) *answer {
		s := spec()
		s.Name = name
		s.Buffer.Depth += deeper
		body, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return f.do("POST", "/v1/runs", string(body))
	}
	f.refused(post("demo", 1), 429, "quota-exceeded", "limits.games_per_run")
	f.want(post("demo", 0), 201)
	f.want(post("demo", 0), 200) // it is there already
	f.refused(post("another", 0), 429, "quota-exceeded", "limits.runs")
	f.refused(f.do("PATCH", "/v1/runs/demo", `{"group":{"oversample":9}}`), 429, "quota-exceeded", "limits.games_per_run")
}
