package runcurve_test

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/diagnosis/runcurve"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// record is a step a minute after the one before, with one group of each version.
func record(step int, dropped map[rollout.Code]int64,
	rewards map[rollout.PolicyVersion][]float64) steprecord.StepRecord {
	r := steprecord.StepRecord{Step: rollout.Step(step), Done: true}
	v := &r.Service
	v.Version = rollout.PolicyVersion(step)
	v.CompletedAt = time.Date(2026, 1, 2, 3, 4+step, 0, 0, time.UTC)
	v.DroppedSoFar = dropped
	for _, n := range dropped {
		v.AtClaim.Dropped += n
	}
	for version, of := range rewards {
		v.Groups = append(v.Groups, steprecord.GroupView{MinVersion: version, Rewards: of, Phases: []int{2, 4},
			AgentRewards: map[string][]float64{"X": of, "O": {0}},
			Tally:        steprecord.Tally{Games: 2, Turns: 10, CutTurns: 1, Answers: 4, Invalid: 1, Cancelled: 1}})
	}
	return r
}

func curve(by runcurve.Axis, most int, records ...steprecord.StepRecord) runcurve.Curve {
	var steps []runcurve.Step
	for _, r := range records {
		steps = append(steps, runcurve.StepOf(r))
	}
	return runcurve.Of("demo", steps, runcurve.Asked{By: by, Most: most})
}

func rewards(version rollout.PolicyVersion, of ...float64) map[rollout.PolicyVersion][]float64 {
	return map[rollout.PolicyVersion][]float64{version: of}
}

func TestCurveIsOfVersionsStepsAndTime(t *testing.T) {
	t.Parallel()
	records := []steprecord.StepRecord{
		record(0, nil, rewards(0, 0, 1)),
		record(1, map[rollout.Code]int64{"stale": 2}, rewards(0, 1, 1)),
		record(2, map[rollout.Code]int64{"stale": 2, "failed": 3}, rewards(2, 1, math.NaN())),
	}
	for _, tt := range []struct {
		by   runcurve.Axis
		most int
		want string // of each point: first-last groups/games mean, dropped
	}{
		{runcurve.ByVersion, 100, "0-0 2/4 0.75; 1-1 0/0 -, 2 stale; 2-2 1/1 1, 3 failed"},
		{runcurve.ByStep, 100, "0-0 1/2 0.5; 1-1 1/2 1, 2 stale; 2-2 1/1 1, 3 failed"},
		{runcurve.ByStep, 2, "0-1 2/4 0.75, 2 stale; 2-2 1/1 1, 3 failed"},
		{runcurve.ByTime, 1, "0-2 3/5 0.8, 3 failed, 2 stale"},
	} {
		var points []string
		c := curve(tt.by, tt.most, records...)
		for _, p := range c.Points {
			points = append(points, shown(p))
		}
		if got := strings.Join(points, "; "); got != tt.want {
			t.Errorf("by %s, at most %d:\n got %s\nwant %s", tt.by, tt.most, got, tt.want)
		}
		if text := strings.Join(c.Notes, "\n"); !strings.Contains(text, "1 rewards are no numbers") {
			t.Errorf("by %s: notes %q", tt.by, text)
		}
		if _, err := json.Marshal(c); err != nil {
			t.Error(err)
		}
		if err := drawn(c); err != nil {
			t.Errorf("by %s: %v", tt.by, err)
		}
	}
	p := curve(runcurve.ByVersion, 9, records...).Points[0]
	if *p.Invalid != 0.25 || *p.Cut != 0.1 || *p.Truncated != 0 || *p.Length != 3 || p.Longest != 4 || p.Cancelled != 2 ||
		p.Agents["O"].N != 2 || p.Agents["X"].Mean != 0.75 || p.TokensPerTurn != nil {
		t.Errorf("%+v", p)
	}
}

func shown(p runcurve.Point) string {
	mean := any("-")
	if p.Reward != nil {
		mean = p.Reward.Mean
	}
	text := fmt.Sprintf("%d-%d %d/%d %v", p.First, p.Last, p.Groups, p.Games, mean)
	for _, code := range []rollout.Code{"failed", "stale", "unknown"} {
		if n := p.Dropped[code]; n > 0 {
			text += fmt.Sprintf(", %d %s", n, code)
		}
	}
	return text
}

// A record keeps its results when its groups go; what it then tells is the same. Older ones say what they know.
func TestCurveOfOldRecords(t *testing.T) {
	t.Parallel()
	full := record(0, map[rollout.Code]int64{"stale": 1}, rewards(0, 0, 1))
	compact := full
	compact.Service.Results, compact.Service.Groups = full.Service.Played(), nil
	a, b := curve(runcurve.ByVersion, 9, full), curve(runcurve.ByVersion, 9, compact)
	if x, y := asJSON(t, a), asJSON(t, b); x != y {
		t.Errorf("with groups %s\nwithout %s", x, y)
	}
	old := full
	old.Service.Groups, old.Service.DroppedSoFar = nil, nil
	c := curve(runcurve.ByStep, 9, old, record(1, map[rollout.Code]int64{"stale": 3}, rewards(1, 1)))
	if got := shown(c.Points[0]) + "; " + shown(c.Points[1]); got != "0-0 0/0 -, 1 unknown; 1-1 1/1 1, 2 unknown" {
		t.Error(got)
	}
	if len(c.Notes) != 2 || !strings.Contains(c.Notes[0], "of 1 of 2 steps no rewards are known") {
		t.Errorf("notes %q", c.Notes)
	}
	if none := curve(runcurve.ByTime, 9); len(none.Points) != 0 || drawn(none) != nil {
		t.Errorf("%+v", none)
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// drawn reports why a curve's picture is no XML.
func drawn(c runcurve.Curve) error {
	var b strings.Builder
	if err := c.WriteSVG(&b); err != nil {
		return err
	}
	d := xml.NewDecoder(strings.NewReader(b.String()))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}
