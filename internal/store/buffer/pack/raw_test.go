package pack

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/millrace/millrace/internal/rollout"
)

// FuzzColumns reads junk past the compression, whose checksum would keep nearly all of it out.
func FuzzColumns(f *testing.F) {
	var w writer
	codec{w: &w}.group(sharing(3, 3, 20))
	f.Add(w.join())
	f.Add([]byte{0, 0, 0})
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := split(raw)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Error(err)
			}
			return
		}
		group := *r
		codec{r: &group}.group(&rollout.Group{})
		if err := group.close(); err != nil && !errors.Is(err, ErrCorrupt) {
			t.Error(err)
		}
		codec{r: r}.episode(&rollout.Episode{})
		if err := r.close(); err != nil && !errors.Is(err, ErrCorrupt) {
			t.Error(err)
		}
	})
}

func TestSharedPromptsAreWrittenOnce(t *testing.T) {
	t.Parallel()
	var w writer
	codec{w: &w}.group(sharing(6, 4, 400))
	// Four prompts of about 400 tokens, 2 bytes each at most; the other episodes refer to them.
	if n := len(w.prompts); n > 4*400*3 {
		t.Errorf("24 prompts, of which 4 are different, take %d bytes", n)
	}
}

func TestRecordsThatAreTooLargeAreNotWritten(t *testing.T) {
	t.Parallel()
	prompt := make([]int32, 1<<20)
	var g rollout.Group
	for range maxPromptIDs>>20 + 1 {
		g.Trajectories = append(g.Trajectories, rollout.Trajectory{Turns: []rollout.Turn{{PromptTokenIDs: prompt}}})
	}
	if _, err := Group(&g); !errors.Is(err, ErrTooLarge) {
		t.Errorf("got %v", err)
	}
}

// sharing is a group whose samples have the same prompts.
func sharing(samples, turns, prompt int) *rollout.Group {
	rng := rand.New(rand.NewPCG(5, 5))
	prompts := make([][]int32, turns)
	for i := range prompts {
		prompts[i] = make([]int32, prompt)
		for j := range prompts[i] {
			prompts[i][j] = rng.Int32N(150_000)
		}
	}
	g := &rollout.Group{Ref: rollout.GroupRef{Run: "demo", Seq: 1}}
	for sample := range samples {
		t := rollout.Trajectory{Sample: sample, Agent: "FRANCE"}
		for i := range turns {
			t.Turns = append(t.Turns, rollout.Turn{PromptTokenIDs: prompts[i], TokenIDs: []int32{1}, Logprobs: []float32{-1}})
		}
		g.Trajectories = append(g.Trajectories, t)
	}
	return g
}
