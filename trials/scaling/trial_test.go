package trial

import (
	"context"
	"testing"
)

// TestStarvation plays twelve workloads with starvation and with the largest fixed fleet. make scaling-trials plays all
// policies.
func TestStarvation(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("24 simulations")
	}
	var all []Comparison
	for seed := range uint64(12) {
		w := Draw(FirstSeed + seed)
		c := w.NewComparison()
		o, err := w.Play(context.Background(), FixedFleet(Most), nil)
		if err != nil {
			t.Fatal(err)
		}
		c.Fixed[Most] = o.summary()
		scaled := c.From[1]
		if err := w.starvation(context.Background(), 1, &scaled); err != nil {
			t.Fatal(err)
		}
		c.From[1] = scaled
		all = append(all, c)
	}
	starvation := func(c *Comparison) Summary { return *c.From[1].Starvation }
	r := Against(all, starvation, func(c *Comparison) Summary { return c.Fastest() })
	if time, hours := Mean(r.Time), Mean(r.Hours); time > 1.08 || hours > 0.5 {
		t.Errorf("%.3f times as long as %d engines, with %.3f of the engine-hours", time, Most, hours)
	}
	if c := Courses(all, 1); c.Flaps > 0 || c.Unfounded > 0 || c.Purchases == 0 {
		t.Errorf("of %d purchases %d are unfounded, and %d changes follow one of the same direction within a cold start",
			c.Purchases, c.Unfounded, c.Flaps)
	}
}

// A workload is the same whenever it is drawn, and needs no more engines than there may be.
func TestDraw(t *testing.T) {
	t.Parallel()
	drifts := map[Drift]int{}
	for seed := range uint64(200) {
		w, again := Draw(seed), Draw(seed)
		if w.Needs != again.Needs || w.ColdStart != again.ColdStart || w.coldStart(3) != again.coldStart(3) {
			t.Fatalf("workload %d is drawn as %+v, and then as %+v", seed, w, again)
		}
		if w.Peak > Most || w.ColdStart.Seconds() < 30 || w.ColdStart.Seconds() > 300 {
			t.Errorf("workload %d needs %.1f engines, which take %v to start", seed, w.Peak, w.ColdStart)
		}
		drifts[w.Drift]++
	}
	if len(drifts) != 5 {
		t.Errorf("the drifts are %v", drifts)
	}
}
