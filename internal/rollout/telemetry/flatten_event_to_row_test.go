package telemetry_test

import (
	"encoding/json"
	"regexp"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

var fieldName = regexp.MustCompile(`^(_time|[a-z][a-z0-9_]*)$`)

// TestFlatRowsAreFlat holds every kind to what table-shaped sinks allow, and all together to their number of fields.
func TestFlatRowsAreFlat(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, body := range bodies() {
		row := telemetry.Flat(telemetry.Event{At: time.Unix(7, 5), Run: "demo", Engine: "a", Key: "k", Body: body})
		b, err := json.Marshal(row)
		if err != nil {
			t.Fatal(err)
		}
		var fields map[string]any
		if err := json.Unmarshal(b, &fields); err != nil {
			t.Fatal(err)
		}
		if len(fields) < 7 {
			t.Errorf("%T has only %d fields: %s", body, len(fields), b)
		}
		for name, value := range fields {
			names[name] = true
			if !fieldName.MatchString(name) {
				t.Errorf("%T: field %q", body, name)
			}
			switch v := value.(type) {
			case []any:
				t.Errorf("%T: field %s is a list", body, name)
			case map[string]any:
				for _, inner := range v {
					if _, ok := inner.(float64); !ok {
						t.Errorf("%T: field %s holds %v", body, name, inner)
					}
				}
			}
		}
	}
	if len(names) > 150 {
		t.Errorf("%d fields in all; the smallest plan allows 256 per dataset", len(names))
	}
}

func TestFlatStep(t *testing.T) {
	t.Parallel()
	asked := time.Unix(100, 0)
	row := telemetry.Flat(telemetry.Event{Body: telemetry.StepCompleted{Record: steprecord.StepRecord{
		Step: 4,
		Trainer: steprecord.StepReport{WallSec: 10, Phases: map[steprecord.Phase]float64{
			steprecord.PhaseWait: 2, steprecord.PhaseTrain: 5, "tensorboard": 1,
		}},
		Service: steprecord.ServiceView{
			FirstAskedAt: asked, GrantedAt: asked.Add(1500 * time.Millisecond),
			Groups: []steprecord.GroupView{{Usage: rollout.Usage{OutputTokens: 20}}, {Usage: rollout.Usage{OutputTokens: 22}}},
		},
	}}})
	for name, want := range map[string]any{
		"wall_s": 10.0, "phase_wait_s": 2.0, "phase_train_s": 5.0, "phase_load_s": 0.0, "phase_other_s": 3.0,
		"starved_s": 2.0, "prefill_s": 0.0, "groups": 2, "output_tokens": int64(42), "kind": "training_step",
	} {
		if row[name] != want {
			t.Errorf("%s is %v, want %v", name, row[name], want)
		}
	}
}

// TestFlatPrefill: the wait for the first batch is no starvation, in whichever row.
func TestFlatPrefill(t *testing.T) {
	t.Parallel()
	for _, body := range []telemetry.Body{
		telemetry.StepCompleted{Record: steprecord.StepRecord{Trainer: steprecord.StepReport{WallSec: 10,
			Phases: map[steprecord.Phase]float64{steprecord.PhaseWait: 7}}}},
		telemetry.BatchClaimed{StarvedSec: 7},
		telemetry.BufferLevel{PrefillSec: 7, Cause: steprecord.StarvedInference, Step: new(rollout.Step)},
	} {
		row := telemetry.Flat(telemetry.Event{Body: body})
		if row["starved_s"] != 0.0 || row["prefill_s"] != 7.0 {
			t.Errorf("%T: starved_s is %v, prefill_s %v", body, row["starved_s"], row["prefill_s"])
		}
	}
}

// TestASampleThatTellsOfAWaitIsAFact: its seconds are in no other one.
func TestASampleThatTellsOfAWaitIsAFact(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		body telemetry.BufferLevel
		want bool
	}{{telemetry.BufferLevel{}, true}, {telemetry.BufferLevel{StarvedSec: 0.1}, false},
		{telemetry.BufferLevel{PrefillSec: 0.1}, false}} {
		if got := (telemetry.Event{Body: tt.body}).Droppable(); got != tt.want {
			t.Errorf("%+v: droppable %t", tt.body, got)
		}
	}
}

// TestFlatFreshness pins the fields that tell how fresh batches are, whether they teach anything, and what is lost.
func TestFlatFreshness(t *testing.T) {
	t.Parallel()
	group := steprecord.GroupView{Phases: []int{4, 7}, ZeroVariance: true}
	for _, tt := range []struct {
		name string
		body telemetry.Body
		want map[string]any
		not  string
	}{
		{"step", telemetry.StepCompleted{Record: steprecord.StepRecord{Service: steprecord.ServiceView{
			StalenessMean: 1.5, StalenessInFlightMean: 1, StalenessInBufferMean: 0.5, ZeroVarianceGroups: 3,
		}}}, map[string]any{"staleness_mean": 1.5, "staleness_in_flight_mean": 1.0, "staleness_in_buffer_mean": 0.5,
			"zero_variance_groups": 3}, ""},
		{"claim", telemetry.BatchClaimed{StalenessInFlightMean: 1, StalenessInBufferMean: 0.5, ZeroVarianceGroups: 3},
			map[string]any{"staleness_in_flight_mean": 1.0, "staleness_in_buffer_mean": 0.5, "zero_variance_groups": 3}, ""},
		{"ready", telemetry.GroupReady{Group: group}, map[string]any{"zero_variance": true, "phases_mean": 5.5}, ""},
		{"ready, written before lengths were", telemetry.GroupReady{}, map[string]any{"zero_variance": false}, "phases_mean"},
		{"dropped", telemetry.GroupDropped{Code: "stale", Phases: []int{4, 7}},
			map[string]any{"code": "stale", "phases_mean": 5.5}, ""},
		{"dropped before it was played", telemetry.GroupDropped{Code: "shrunk"},
			map[string]any{"code": "shrunk"}, "phases_mean"},
		{"collapse", telemetry.RewardVarianceChanged{RewardVariance: runstatus.RewardVariance{Groups: 32, ZeroVariance: 30,
			Collapsed: true}},
			map[string]any{"collapsed": true, "reward_variance_groups": 32, "reward_variance_zero_groups": 30}, ""},
		{"level", telemetry.BufferLevel{Throttle: runstatus.ThrottleBytes,
			RewardVariance: runstatus.RewardVariance{Groups: 8, ZeroVariance: 1}},
			map[string]any{"throttle": "max_bytes", "reward_variance_groups": 8, "reward_variance_zero_groups": 1}, ""},
		{"level of a run that has just begun", telemetry.BufferLevel{}, map[string]any{"buffer_target": int64(0)},
			"reward_variance_groups"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			row := telemetry.Flat(telemetry.Event{Body: tt.body})
			for name, want := range tt.want {
				if row[name] != want {
					t.Errorf("%s is %v, want %v", name, row[name], want)
				}
			}
			if v, there := row[tt.not]; there {
				t.Errorf("%s is %v, want none", tt.not, v)
			}
		})
	}
}
