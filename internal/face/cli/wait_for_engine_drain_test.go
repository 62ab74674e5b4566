package cli

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// A drain has ended when the keeper has looked twice since and found nothing, whatever adapters the engine lists.
func TestEndOfADrain(t *testing.T) {
	t.Parallel()
	look := func(second int, state enginestate.EngineState, running float64) enginestate.Engine {
		return enginestate.Engine{State: state, Adapters: []string{"somebody-elses"},
			Load: enginestate.EngineLoad{At: noon.Add(time.Duration(second) * time.Second), Running: running}}
	}
	const draining, ready = enginestate.EngineDraining, enginestate.EngineReady
	uncounted := enginestate.Engine{State: draining}
	for _, tt := range []struct {
		name string
		seen []enginestate.Engine
		want drainEnd
	}{
		{"idle twice since", []enginestate.Engine{look(0, draining, 0), look(1, draining, 0), look(2, draining, 0)},
			drainFinished},
		{"one look that is shown again and again", []enginestate.Engine{look(0, draining, 0), look(1, draining, 0),
			look(1, draining, 0), look(1, draining, 0)}, drainGoesOn},
		{"a request was on its way", []enginestate.Engine{look(0, draining, 0), look(1, draining, 0), look(2, draining, 1),
			look(3, draining, 0)}, drainGoesOn},
		{"busy", []enginestate.Engine{look(0, draining, 3), look(1, draining, 3)}, drainGoesOn},
		{"not noticed yet, and quarantined", []enginestate.Engine{look(0, enginestate.EngineQuarantined, 0)}, drainGoesOn},
		{"not noticed yet, and joining", []enginestate.Engine{look(0, enginestate.EngineStarting, 0)}, drainGoesOn},
		{"its requests are not counted", []enginestate.Engine{uncounted, uncounted, uncounted}, drainGoesOn},
		{"it died", []enginestate.Engine{look(0, draining, 3), look(1, enginestate.EngineLost, 3)}, drainLost},
		{"it was added again", []enginestate.Engine{look(0, draining, 3), look(1, ready, 3)}, drainUndone},
	} {
		var p drainProgress
		var got drainEnd
		for _, e := range tt.seen {
			got = p.take(e)
		}
		if got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

// What a preStop hook learns from the exit code.
func TestExitCodesOfADrain(t *testing.T) {
	t.Parallel()
	const engine = `{"id":"%s","state":"%s","reason":"no answer","since":"2026-11-21T11:00:00Z",` +
		`"load":{"at":"2026-11-21T11:00:05Z","running":2}}`
	answers := map[string]reply{
		"DELETE /v1/engines/gone":       {200, `{}`},
		"POST /v1/engines/down/drain":   {503, `{"title":"Unavailable","status":503,"detail":"redis does not answer"}`},
		"POST /v1/engines/silent/drain": {}, // no answer, however long
		"POST /v1/engines/locked/drain": {403, `{"title":"Forbidden","status":403,"detail":"a reader may not"}`},
	}
	for id, state := range map[string]string{"busy": "draining", "dead": "lost", "again": "ready"} {
		text := fmt.Sprintf(engine, id, state)
		answers["POST /v1/engines/"+id+"/drain"] = reply{200, text}
		answers["GET /v1/engines/"+id] = reply{200, text}
	}
	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{"remove gone --wait", ExitOK, "engine gone has left"},
		{"drain dead --wait", ExitOK, "engine dead is lost (no answer); what it had is sent again elsewhere"},
		{"drain busy --wait --timeout 3s", ExitTimeout, "engine busy still has 2 requests after 3s"},
		{"drain nobody --wait --timeout 1m", ExitNotFound, "no such thing"},
		{"drain down --wait --timeout 50ms", ExitUnavailable, "the server has not answered within 50ms"},
		{"drain silent --wait --timeout 50ms", ExitUnavailable, "the server has not answered within 50ms"},
		{"drain locked --wait", ExitAuth, "a reader may not"},
		{"drain again --wait", ExitError, "somebody has added it again"},
		{"drain busy --timeout 1m", ExitUsage, "add --wait"},
		{"drain busy --wait --timeout -1s", ExitUsage, "want a time"},
	} {
		r, _ := command(t, answers, "", nil, append([]string{"engine"}, strings.Fields(tt.args)...)...)
		if said := r.stderr + fmt.Sprint(r.err); r.code != tt.code || !strings.Contains(said, tt.want) {
			t.Errorf("%s: exit code %d, want %d\n%s", tt.args, r.code, tt.code, said)
		}
	}
}
