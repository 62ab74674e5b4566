package api_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// TestEnginesOfAFastStep: what engines did for a step that is over before it is written down is kept later.
func TestEnginesOfAFastStep(t *testing.T) {
	t.Parallel()
	var looks, ahead atomic.Int64
	f := serve(t, func(_ *api.Config, d *api.Deps) {
		d.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		d.Engines = func(_ context.Context, _ rollout.RunName, _, _ time.Time) ([]enginestate.EngineView, error) {
			return []enginestate.EngineView{{Engine: "a", Requests: float64(looks.Add(1))}}, nil
		}
	})
	f.start()
	f.ready(0, 1, 2, 3, 4, 5)
	f.attach()
	for step := range 3 {
		if step == 2 {
			ahead.Store(int64(time.Minute))
		}
		f.want(f.do("POST", fmt.Sprintf("/v1/runs/demo/steps/%d/claim?generation=1&wait=5s", step), ""), 200)
		f.want(f.do("PUT", fmt.Sprintf("/v1/runs/demo/steps/%d", step), `{"generation":1,"wall_seconds":1}`), 201)
	}
	var record steprecord.StepRecord
	f.want(f.do("GET", "/v1/runs/demo/steps/1", ""), 200).into(&record)
	if looks.Load() != 4 || len(record.Service.Engines) != 1 || record.Service.Engines[0].Requests != 4 {
		t.Errorf("%d looks, engines of step 1: %+v", looks.Load(), record.Service.Engines)
	}
}
