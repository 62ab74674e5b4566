package runmachine

import (
	"encoding/json"
	"testing"
)

// A run as workers before this package wrote it when they cut its history, with every field that they knew: it is read
// whole, and written in the same words for a worker of that version to go on with.
func TestStateOfAnEarlierVersion(t *testing.T) {
	t.Parallel()
	const spec = `{"name":"demo","model":"m","steps":9,"seed":7,"environment":{"kind":"tictactoe","opening_moves":1},` +
		`"group":{"samples":4,"min_samples":3},` +
		`"buffer":{"depth":3,"groups_per_step":2,"max_staleness":4,"on_stale":"drop"},` +
		`"sampling":{"temperature":1,"top_p":1,"max_tokens":4},"adapters":{"rank":32,"path_prefix":"/adapters"},` +
		`"dispatch":{"policy":"least_tokens","order":"oldest_group","queue":"shared"},` +
		`"timeouts":{"completion":"20s","episode":"2m0s","heartbeat":"10s"}}`
	const state = `{"spec":` + spec + `,"state":"paused","reason":"paused by an operator",` +
		`"started_at":"2026-11-22T10:00:00Z","ended_at":"2026-11-22T11:00:00Z","next_seq":12,` +
		`"playing":[{"seq":10,"version":2},{"seq":11,"version":3}],"ready":[8,9],"claimed":4,"completed":3,"version":3,` +
		`"policies":[{"version":3,"adapter":"demo-v3","path":"/adapters/3","digest":"d","state":"serving",` +
		`"published_at":"2026-11-22T10:20:00Z","load_seconds":{"a":1.5},"notes":["n"]}],"failures":{"timeout":2,"zero_variance":1},` +
		`"changes":5,"versions":{"8":2,"9":2,"10":2,"11":3},"holds":[{"version":2,"until":4}],"bytes":4096,` +
		`"group_bytes":512,"reward_variance":{"latest":[{"seq":6},{"seq":7,"zero_variance":true}],"collapsed":true},"failing":2,` +
		`"looked":"2026-11-22T10:30:00Z","missing":[10],"look_next":11}`
	var run Run
	if err := json.Unmarshal([]byte(state), &run); err != nil {
		t.Fatal(err)
	}
	written, err := json.Marshal(&run)
	if err != nil {
		t.Fatal(err)
	}
	var before, after any
	_ = json.Unmarshal([]byte(state), &before)
	_ = json.Unmarshal(written, &after)
	missing(t, "state", before, after)
}

// missing reports what of one document the other one does not have.
func missing(t *testing.T, path string, want, got any) {
	t.Helper()
	fields, is := want.(map[string]any)
	if !is {
		a, _ := json.Marshal(want)
		if b, _ := json.Marshal(got); string(a) != string(b) {
			t.Errorf("%s is %s and becomes %s", path, a, b)
		}
		return
	}
	inner, _ := got.(map[string]any)
	for name, value := range fields {
		missing(t, path+"."+name, value, inner[name])
	}
}
