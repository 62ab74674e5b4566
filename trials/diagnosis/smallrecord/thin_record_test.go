package smallrecord

import (
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/diagnosis/runrecord"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

// TestSmallRecordsKeepWhatIsRead: facts, some samples, nothing of who called.
func TestSmallRecordsKeepWhatIsRead(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	r := &runrecord.Record{Events: runrecord.Events{
		{At: at, Run: "demo", Key: "start", Body: telemetry.RunChanged{State: runstatus.RunRunning, Change: "start"}},
		{At: at, Engine: "engine-0", Body: telemetry.EngineSample{Load: enginestate.EngineLoad{Running: 1}}},
		{At: at, Engine: "engine-0", Body: telemetry.EngineSample{Load: enginestate.EngineLoad{Running: 2}}},
		{At: at, Run: "demo", Body: telemetry.Audit{Who: "me", What: "start-run"}},
	}}
	Thin(r, 2)
	var kinds []string
	for _, e := range r.Events {
		kinds = append(kinds, e.Kind())
	}
	if got := strings.Join(kinds, " "); got != "run_changed engine_sample" || len(r.Gaps) != 1 {
		t.Errorf("got %s and gaps %q", got, r.Gaps)
	}
}
