package runrecord_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/diagnosis/runrecord"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func record() *runrecord.Record {
	at := func(sec int) time.Time { return start.Add(time.Duration(sec) * time.Second) }
	spec := runspec.Spec{Name: "demo", Steps: 2}
	spec.Buffer.Depth, spec.Buffer.GroupsPerStep, spec.Group.Samples = 2, 1, 2
	r := &runrecord.Record{
		Format: runrecord.Format, Version: runrecord.Version, RecordedAt: at(99),
		Run:     runstatus.RunStatus{Spec: spec, State: runstatus.RunRunning, StartedAt: start},
		Engines: []enginestate.Engine{{ID: "engine-0", MaxInFlight: 4}},
	}
	for step := range 2 {
		s := steprecord.StepRecord{Step: rollout.Step(step), Done: true}
		s.Trainer = steprecord.StepReport{WallSec: 10, Phases: map[steprecord.Phase]float64{steprecord.PhaseTrain: 9}}
		s.Service.GrantedAt, s.Service.CompletedAt = at(10*step+10), at(10*step+20)
		s.Service.Groups = []steprecord.GroupView{{
			Seq: rollout.GroupSeq(step), Times: rollout.GroupTimes{LaunchedAt: start, StartedAt: at(1), ReadyAt: at(9)},
			Usage: rollout.Usage{Requests: 3, InputTokens: 300, OutputTokens: 30},
		}}
		r.Steps = append(r.Steps, s)
	}
	r.Events = runrecord.Events{
		{At: start, Run: "demo", Key: "start", Body: telemetry.RunChanged{State: runstatus.RunRunning, Change: "start"}},
		{At: at(1), Engine: "engine-0", Body: telemetry.EngineSample{Load: enginestate.EngineLoad{Running: 1}}},
		{At: at(2), Engine: "engine-0", Body: telemetry.EngineSample{Load: enginestate.EngineLoad{Running: 2}}},
		{At: at(3), Run: "demo", Body: telemetry.Audit{Who: "me", What: "start-run"}},
	}
	return r
}

// TestRecordsComeBackAsTheyWereWritten: plain and gzipped.
func TestRecordsComeBackAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	for _, zipped := range []bool{false, true} {
		var file bytes.Buffer
		if err := record().Write(&file, zipped); err != nil {
			t.Fatal(err)
		}
		got, err := runrecord.Read("run.json", &file)
		if err != nil {
			t.Fatal(err)
		}
		if want := record(); !reflect.DeepEqual(got, want) {
			t.Errorf("zipped %v: got %+v, want %+v", zipped, got, want)
		}
	}
}

// TestAMarkBeforeTheText is what some editors write; it changes nothing.
func TestAMarkBeforeTheText(t *testing.T) {
	t.Parallel()
	var file bytes.Buffer
	if err := record().Write(&file, false); err != nil {
		t.Fatal(err)
	}
	if _, err := runrecord.Read("run.json", strings.NewReader("\ufeff"+file.String())); err != nil {
		t.Error(err)
	}
}

// TestOddStepsAreLeftOut of a record that is made, which says so: the others are worth having.
func TestOddStepsAreLeftOut(t *testing.T) {
	t.Parallel()
	r := record()
	r.Steps[0].Trainer.WallSec = 0
	r.LeaveOutOdd()
	if err := r.Validate(); err != nil || len(r.Steps) != 1 || len(r.Gaps) != 1 || !strings.Contains(r.Gaps[0], "step 0") {
		t.Errorf("%d steps, gaps %q, %v", len(r.Steps), r.Gaps, err)
	}
}

// TestAFaultyRecordIsRefused says where and why.
func TestAFaultyRecordIsRefused(t *testing.T) {
	t.Parallel()
	var whole, zipped bytes.Buffer
	if err := record().Write(&whole, false); err != nil {
		t.Fatal(err)
	}
	if err := record().Write(&zipped, true); err != nil {
		t.Fatal(err)
	}
	text := whole.String()
	gzipped := func(text string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		if _, err := io.WriteString(z, text); err != nil || z.Close() != nil {
			t.Fatal("cannot gzip")
		}
		return b.String()
	}
	replaced := func(old, with string) string {
		if !strings.Contains(text, old) {
			t.Fatalf("no %s in the record", old)
		}
		return strings.Replace(text, old, with, 1)
	}
	for _, tt := range []struct{ name, text, want string }{
		{"empty", "\n", "run.json: is empty"},
		{"no JSON", "steps:", "run.json:1: invalid character"},
		{"cut off", text[:len(text)/2], "unexpected end of JSON input"},
		{"cut off and gzipped", zipped.String()[:zipped.Len()-20], "run.json: is cut off; record the run again"},
		{"cut off in gzip's own head", zipped.String()[:5], "run.json: is cut off; record the run again"},
		{"damaged", zipped.String()[:60] + "XXXXXXXX" + zipped.String()[68:], "run.json: is "},
		{"something else, gzipped", gzipped(strings.Repeat("\x00", 1<<20)), "run.json: holds no JSON document"},
		{"a few bytes that would take gigabytes", gzipped(replaced(`"steps": [`, `"steps": [`+strings.Repeat("{},", 4_000_000))),
			"run.json: holds more than 4 million objects; make a smaller one with"},
		{"UTF-16", "\xff\xfe{\x00}\x00", "run.json: is UTF-16, which some shells make of what they redirect"},
		{"a list of steps", `{"steps": []}`, "it is no run's record, perhaps the output of run steps"},
		{"another document", `{"format": "x"}`, `format "x": want "millrace-run-record"; write one with: millrace run record`},
		{"a later version", replaced(`"version": 2`, `"version": 3`), "version 3: this program reads versions up to 2"},
		{"an unknown key", replaced(`"steps"`, `"stops"`), `unknown key "stops"; a newer program may have written it`},
		{"a wrong type", replaced(`"step": 1`, `"step": "one"`), "run.json:"},
		{"two records", text + text, "after top-level value"},
		{"no name", replaced(`"name": "demo"`, `"name": ""`), "run.spec.name: is missing"},
		{"steps out of order", replaced(`"step": 1`, `"step": 0`), "steps[1]: step 0 follows step 0"},
		{"a phase below zero", replaced(`"train": 9`, `"train": -9`), "steps[0] (step 0): phase train takes -9 s"},
		{"more cached than asked", replaced(`"cached_tokens": 0`, `"cached_tokens": 301`), "a usage that cannot be"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := runrecord.Read("run.json", strings.NewReader(tt.text))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}
