package requestsim_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/diagnosis/reporttext"

	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/trials/diagnosis/requestsim"
)

// sweptWorld is engines with free slots on which n requests take 1 + b(n-1) times as long as one, sized so that games
// take about as long at every b.
func sweptWorld(b float64) requestsim.World {
	const inFlight = 48
	slow := 1 + b*(inFlight-1)
	each := 12.5 / slow // seconds of a request alone
	return requestsim.World{
		Name: "swept", Seed: 7, Steps: 26, Depth: 2, Groups: 8, Games: 4, MaxStaleness: 8, OnStale: runspec.DropStale,
		Turns: 48, TurnsCV: 0.1, Agents: 3, Prompt: 1200, Output: 73, TokensCV: 0.2,
		Engines: 4, Slots: 512, Engine: requestsim.Engine{
			PromptSec: each * 0.43 / 1200, OutputSec: each * 0.57 / 73, PerRequest: b},
		Load: 3, Train: 140, Publish: 7, Launch: 0.5, Commit: 0.2,
	}
}

func stepSec(steps []steprecord.StepRecord) float64 {
	sum, n := 0.0, 0.0
	for _, s := range steps[6:] {
		sum += s.StepSec()
		n++
	}
	return sum / n
}

// From engines whose requests do not feel each other to engines that are eight times as slow at their load, what more
// engines and more depth give is within a tenth of what another simulator then plays, request by request.
func TestSaturationSweep(t *testing.T) {
	t.Parallel()
	for _, b := range []float64{0, 0.004, 0.015, 0.047, 0.14} {
		t.Run(fmt.Sprintf("x%.1f", 1+47*b), func(t *testing.T) {
			t.Parallel()
			w := sweptWorld(b)
			record := requestsim.Play(w).Record
			// The record is of a run that goes on: the last steps have no games beside them.
			steps := record.Steps[:20]
			r := diagnosis.Diagnose(diagnosis.Input{Spec: record.Run.Spec, Records: steps, Loads: []diagnosis.AdapterLoad{}})
			now := stepSec(steps)
			for _, tt := range []struct {
				change string
				apply  func(*requestsim.World)
			}{
				{"engines 4 -> 8", func(w *requestsim.World) { w.Engines = 8 }},
				{"depth 2 -> 4", func(w *requestsim.World) { w.Depth = 4 }},
			} {
				other := w
				tt.apply(&other)
				is := stepSec(requestsim.Play(other).Record.Steps[:20])
				said := whatIf(r, tt.change)
				t.Logf("%s: said %.1f s (%.1f-%.1f), %s; is %.1f s (%+.1f %%), was %.1f s", tt.change, said.StepSec, said.LowSec,
					said.HighSec, said.Outcome, is, 100*(said.StepSec/is-1), now)
				if math.Abs(said.StepSec/is-1) > 0.1 {
					t.Errorf("%s: said %.1f s, is %.1f s", tt.change, said.StepSec, is)
				}
			}
			t.Logf("%s by %q: %+v", r.Regime.Kind, r.Regime.Resource, r.Regime.Load)
			if t.Failed() {
				t.Log(text(t, r))
			}
		})
	}
}

func text(t *testing.T, r diagnosis.Report) string {
	t.Helper()
	var b strings.Builder
	if err := reporttext.Write(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func whatIf(r diagnosis.Report, change string) diagnosis.WhatIf {
	i := slices.IndexFunc(r.WhatIfs, func(w diagnosis.WhatIf) bool { return w.Change == change })
	if i < 0 {
		return diagnosis.WhatIf{}
	}
	return r.WhatIfs[i]
}
