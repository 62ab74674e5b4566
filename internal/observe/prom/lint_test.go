package prom_test

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/millrace/millrace/internal/observe/prom"
	"github.com/millrace/millrace/internal/observe/prom/processmetrics"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

// full is a server's metrics after events of every kind, with what the Temporal SDK adds.
func full() (*prom.Metrics, string) {
	m := prom.New()
	at := time.Unix(1000, 0)
	for _, b := range []telemetry.Body{
		telemetry.StepCompleted{Record: steprecord.StepRecord{Step: 1, Trainer: steprecord.StepReport{WallSec: 3},
			Service: steprecord.ServiceView{GroupsPerStep: 1, Groups: []steprecord.GroupView{{}}}}},
		telemetry.BufferLevel{StarvedSec: 1, Cause: steprecord.StarvedQueue, RewardVariance: runstatus.RewardVariance{
			Groups: 3}},
		telemetry.GroupReady{Group: steprecord.GroupView{Times: rollout.GroupTimes{LaunchedAt: at, StartedAt: at,
			ReadyAt: at}}},
		telemetry.GroupDropped{Code: "stale"}, telemetry.EpisodeFinished{}, telemetry.EpisodeFailed{}, telemetry.TokenRates{},
		telemetry.PolicyPublished{Policy: runstatus.Policy{State: runstatus.PolicyServing}},
		telemetry.EngineChanged{State: enginestate.EngineStarting}, telemetry.EngineChanged{State: enginestate.EngineReady},
		telemetry.EngineSample{Load: enginestate.EngineLoad{UsageWindowSec: 1}}, telemetry.AdapterLoaded{},
		telemetry.AdapterLoaded{Failure: "no"}, telemetry.DispatchSample{Rejected: map[rollout.Code]int64{"queue_full": 1}},
	} {
		m.Emit(telemetry.Event{At: at, Run: "demo", Engine: "a", Body: b})
	}
	m.Refused("overloaded")
	m.Breakers([]enginestate.Worker{{State: enginestate.WorkerAlive, Breakers: []enginestate.Breaker{{Engine: "a"}}}})
	m.Stand(standing("demo", runstatus.RunRunning))
	m.Registry().MustRegister(sinkOf("store", processmetrics.Sink{Delivered: 1})...)
	sdk := processmetrics.NewTemporalMetrics()
	m.Registry().MustRegister(sdk)
	h := sdk.Handler().WithTags(map[string]string{"namespace": "default", "task_queue": "m-games/demo"})
	h.Counter("temporal_request").Inc(2)
	h.WithTags(map[string]string{"operation": "PollX"}).Counter("temporal_request").Inc(3)
	h.Gauge("temporal_num_pollers").Update(2)
	h.Timer("temporal_request_latency").Record(time.Second)
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return m, w.Body.String()
}

// TestNamesAreAsPrometheusWantsThem: promtool's linter finds nothing in our names, but for those that are a contract
// with dashboards.
func TestNamesAreAsPrometheusWantsThem(t *testing.T) {
	t.Parallel()
	m, text := full()
	families, err := m.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	for _, line := range []string{`temporal_request_total{namespace="default",task_queue="m-games"} 2`,
		`temporal_request_total{namespace="default",operation="PollX",task_queue="m-games"} 3`,
		`temporal_num_pollers{namespace="default",task_queue="m-games"} 2`,
		`temporal_request_latency_seconds_count{namespace="default",task_queue="m-games"} 1`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %s in\n%s", line, text)
		}
	}
}
