package serving

import (
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/simulate/sim/virtualtime"
)

// evaluation always has so many requests that go behind, as long as training goes on.
type evaluation struct {
	*players
	fleet    *Fleet
	answered int
}

func (e *evaluation) ask(n uint64) {
	e.fleet.Submit(Request{Episode: rollout.EpisodeRef{GroupRef: rollout.GroupRef{Run: "evaluation",
		Seq: rollout.GroupSeq(n)}}, Model: "v1", Prompt: 440, Output: 24, Client: e, Tag: n})
}

func (e *evaluation) Answered(_ time.Duration, tag uint64, _ Answer) {
	if e.left > 0 {
		e.answered++
		e.ask(tag)
	}
}

// TestRunsBehindHardlySlowOthers: with idle places, training takes less than 2 % longer beside an evaluation that would
// take every place; without them, the evaluation gets none but in training's first and last moments.
func TestRunsBehindHardlySlowOthers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		groups  int // of six games, on engines of 128 places together
		slower  float64
		answers [2]int // of the evaluation, to 20,000 of training
	}{
		{"a third of the places are idle", 14, 1.02, [2]int{60, 250}},
		{"nine tenths of the places are idle", 2, 1.02, [2]int{60, 250}},
		{"twice as many games as places", 43, 1.005, [2]int{0, 40}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			play := func(games uint64) (took time.Duration, answered int) {
				w := reference
				w.groups = tt.groups
				a := virtualtime.NewAgenda()
				f := a100Fleet(a, 2, 64)
				f.Rules("evaluation", runspec.Dispatch{Behind: true})
				p := newPlayers(a, f, w, 20_000)
				e := &evaluation{players: p, fleet: f}
				p.start()
				for n := range games {
					e.ask(n)
				}
				for p.left > 0 && a.Step() {
				}
				took = a.Now()
				return took, e.answered
			}
			alone, _ := play(0)
			beside, answered := play(300)
			slower := float64(beside) / float64(alone)
			t.Logf("training takes %.4f times as long, the evaluation got %d answers in %v", slower, answered, beside)
			if slower > tt.slower {
				t.Errorf("training takes %.4f times as long, want %g at most", slower, tt.slower)
			}
			if answered < tt.answers[0] || answered > tt.answers[1] {
				t.Errorf("the evaluation got %d answers, want %v", answered, tt.answers)
			}
		})
	}
}
