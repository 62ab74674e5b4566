package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http/httptest"
	"testing"

	"github.com/millrace/millrace/internal/scaling/supply"

	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	speckeys "github.com/millrace/millrace/internal/rollout/spec"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/store/buffer"
)

// anything says no to everything that the API lets through: what matters is that nothing breaks before.
type anything struct{ scripted }

func (*anything) Complete(context.Context, rollout.RunName, rollout.Step, rollout.TrainerGeneration,
	steprecord.StepReport,
	steprecord.FleetView) (steprecord.StepRecord, bool, error) {
	return steprecord.StepRecord{}, false, rollout.Refuse(rollout.NotClaimed, "not claimed")
}

func (*anything) Step(context.Context, rollout.RunName, rollout.Step) (steprecord.StepRecord, error) {
	return steprecord.StepRecord{}, rollout.Refuse(rollout.NoSuchStep, "no such step")
}

func (*anything) Batch(context.Context, rollout.RunName, rollout.Step) (*buffer.RawBatch, error) {
	return nil, rollout.Refuse(rollout.NotRetained, "not kept")
}

func (*anything) AllSteps(context.Context, rollout.RunName, rollout.Step, int) ([]steprecord.StepRecord, error) {
	return nil, rollout.Refuse(rollout.NoSuchRun, "no such run")
}

func (*anything) Runs(context.Context) ([]runstatus.RunStatus, error) { return nil, nil }

func (*anything) Active(context.Context) ([]runstatus.RunStatus, error) { return nil, nil }

func (*anything) Departures(context.Context, rollout.RunName) ([]steprecord.LengthCount, error) {
	return nil, nil
}

// deaf refuses every change.
type deaf struct{ control }

func (*deaf) Change(context.Context, rollout.RunName, speckeys.Change) (runstatus.RunStatus, error) {
	return runstatus.RunStatus{}, rollout.Refuse(rollout.RunOver, "over")
}

func (*deaf) Stop(context.Context, rollout.RunName, string) (runstatus.RunStatus, error) {
	return runstatus.RunStatus{}, rollout.Refuse(rollout.RunOver, "over")
}

func (*deaf) Publish(context.Context, rollout.RunName, rollout.PolicyVersion, string,
	rollout.TrainerGeneration) (runstatus.Policy, error) {
	return runstatus.Policy{}, rollout.Refuse(rollout.OutOfOrder, "out of order")
}

// FuzzBodies: whatever a client sends, the answer is a client's mistake or an answer, never a broken server. Every
// call with a body is in it.
func FuzzBodies(f *testing.F) {
	paths := []struct{ method, path string }{
		{"POST", "/v1/runs/demo/trainer"}, {"POST", "/v1/runs/demo/steps/0/claim?generation=1"}, {"PUT",
			"/v1/runs/demo/steps/0"},
		{"PATCH", "/v1/runs/demo"}, {"POST", "/v1/runs/demo/stop"}, {"PUT", "/v1/runs/demo/policies/1"},
		{"PUT", "/v1/engines/a"}, {"POST", "/v1/runs"},
	}
	for at := range paths {
		for _, body := range []string{
			`{}`, `null`, `[]`, `"x"`, `{"generation":1,"wall_seconds":1e308,"phases":{"a":1}}`,
			`{"buffer":{"depth":99999999999999999999}}`, "\x00\xff",
			`{"buffer":{"on_stale":"wait","max_bytes":9223372036854775807}}`, `{"group":{"grace":"2540400h","zero_variance":"drop","oversample":-1}}`,
			`{"group":{"grace":Infinity}}`,
			`{"url":"http://[::1%25eth0]:8000/../v1","max_in_flight":-1}`, `{"name":"demo","environment":{"kind":1}}`,
		} {
			f.Add(at, []byte(body))
		}
	}
	server, err := newServer(api.Config{Listen: "127.0.0.1:0"}, api.Deps{
		Control: &deaf{}, Store: &anything{scripted{answer: notReady}}, Fleet: smallFleet{}, Workers: oneWorker{},
		Events:   nilEvents{},
		ReadSpec: func(spec []byte) (s runspec.Spec, err error) { return s, json.Unmarshal(spec, &s) },
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, at int, body []byte) {
		to := paths[uint(at)%uint(len(paths))]
		r := httptest.NewRequest(to.method, "http://localhost"+to.path, bytes.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		server.Handler().ServeHTTP(w, r)
		if w.Code >= 500 {
			t.Errorf("%s %s with %q: %d %s", to.method, to.path, body, w.Code, w.Body)
		}
	})
}

// smallFleet is one engine that is ready; nothing changes it.
type smallFleet struct{}

func (smallFleet) List(context.Context) ([]enginestate.Engine, error) {
	return []enginestate.Engine{{ID: "gpu-7", State: enginestate.EngineReady, Models: []string{"m"}}}, nil
}

// oneWorker is one worker process that is alive.
type oneWorker struct{}

func (oneWorker) List(context.Context) ([]enginestate.Worker, error) {
	return []enginestate.Worker{{ID: "w", State: enginestate.WorkerAlive}}, nil
}

func (smallFleet) Get(_ context.Context, id rollout.EngineID) (enginestate.Engine, error) {
	return enginestate.Engine{ID: id}, nil
}

func (smallFleet) Add(_ context.Context, e enginestate.Engine) (enginestate.Engine, error) {
	return e, nil
}

func (smallFleet) Drain(context.Context, rollout.EngineID, bool) error { return nil }

func (smallFleet) Remove(context.Context, rollout.EngineID, bool) error { return nil }

func (smallFleet) Scaling(context.Context) (supply.View, bool, error) {
	return supply.View{}, false, nil
}
