package diagnosis_test

import (
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// What differs between the steps before and after a jump is its cause, first in the report, with when it began, when it
// was felt, its share of the jump, and what removes it.
func TestWhatChanged(t *testing.T) {
	t.Parallel()
	const changed = 128 // first group that is unlike the others: of step 8, and launched two steps before
	grown := with(seedCase(), func(m *simRun) { m.engines, m.steps, m.growth = 9, 24, from(changed, 2.4) })
	groups := func(in *diagnosis.Input, change func(*steprecord.GroupView)) {
		for i := range in.Records {
			for j := range in.Records[i].Service.Groups {
				g := &in.Records[i].Service.Groups[j]
				g.Usage.OutputTokens, g.Usage.InputTokens = 80*g.Usage.Requests, 900*g.Usage.Requests
				g.Usage.CachedTokens = g.Usage.InputTokens / 2
				if g.Seq >= changed {
					change(g)
				}
			}
		}
	}
	sameRequests := func(g *steprecord.GroupView) {
		g.Usage.Requests, g.Usage.OutputTokens = width*10, 80*width*10
		g.Usage.InputTokens, g.Usage.CachedTokens = 900*width*10, 450*width*10
	}
	changedAt := func(in *diagnosis.Input) time.Time {
		for _, r := range in.Records {
			for _, g := range r.Service.Groups {
				if g.Seq == changed {
					return g.Times.LaunchedAt
				}
			}
		}
		return time.Time{}
	}
	for _, tt := range []struct {
		name   string
		run    simRun
		change func(*diagnosis.Input)
		cause  diagnosis.CauseName
		says   string
	}{
		{"games have more requests", grown, func(in *diagnosis.Input) { groups(in, func(*steprecord.GroupView) {}) },
			diagnosis.CauseLongerGames, "requests, had 70"},
		{"the same requests take longer", grown, func(in *diagnosis.Input) { groups(in, sameRequests) },
			diagnosis.CauseEngineSlow, "times as slow for the same tokens"},
		{"games use more adapters than a batch holds", grown, func(in *diagnosis.Input) {
			in.AdapterSlots = 1
			groups(in, func(g *steprecord.GroupView) {
				sameRequests(g)
				g.MinVersion = rollout.PolicyVersion(1 + g.Seq%3)
			})
		}, diagnosis.CauseAdapterSlots, "--max-loras of the engines is 1"},
		{"completions are longer", grown, func(in *diagnosis.Input) {
			groups(in, func(g *steprecord.GroupView) {
				sameRequests(g)
				g.Usage.OutputTokens = g.Usage.OutputTokens * 24 / 10
			})
		}, diagnosis.CauseLongerCompletions, "a completion has 192 tokens, had 80"},
		{"prompts are longer", grown, func(in *diagnosis.Input) {
			groups(in, func(g *steprecord.GroupView) {
				sameRequests(g)
				g.Usage.InputTokens, g.Usage.CachedTokens = 3*g.Usage.InputTokens, 3*g.Usage.CachedTokens
			})
		}, diagnosis.CauseLongerPrompts, "a prompt has 2700 tokens, had 900"},
		{"caches hold nothing any more", grown, func(in *diagnosis.Input) {
			groups(in, func(g *steprecord.GroupView) {
				sameRequests(g)
				g.Usage.CachedTokens = 0
			})
		}, diagnosis.CauseLowerPrefixHits, "0 % of the prompt tokens in their prefix caches, found 50 %"},
		{"reference log-probs leave the trainer", grown, func(in *diagnosis.Input) {
			groups(in, sameRequests)
			for i := 6; i < len(in.Records); i++ {
				r := &in.Records[i].Trainer
				r.Phases[steprecord.PhaseTrain] += r.Phases[steprecord.PhaseRefLogprobs]
				r.Phases[steprecord.PhaseRefLogprobs] = 0
			}
		}, diagnosis.CauseRefInRollouts, "reference log-probs take the trainer 0 s"},
		{"an operator makes the games longer, and a full buffer hides it", grown, func(in *diagnosis.Input) {
			groups(in, func(*steprecord.GroupView) {})
			in.Events = []diagnosis.Event{{At: changedAt(in).Add(-time.Second), Kind: diagnosis.EventConfig,
				Text: "set environment.horizon_years=5 (was 2)"}}
		}, diagnosis.CauseConfig, "felt from step"},
		{"an operator changes what costs nothing", grown, func(in *diagnosis.Input) {
			groups(in, func(*steprecord.GroupView) {})
			in.Events = []diagnosis.Event{{At: changedAt(in).Add(-time.Second), Kind: diagnosis.EventConfig,
				Text: "set steps=99 (was 24)"}}
		}, diagnosis.CauseLongerGames, "requests, had 70"},
		{"the weights are published slowly", with(seedCase(), func(m *simRun) { m.engines, m.steps = 16, 20 }),
			func(in *diagnosis.Input) {
				for i := 8; i < len(in.Records); i++ {
					in.Records[i].Trainer.Phases[steprecord.PhasePublish] += 80
					in.Records[i].Trainer.WallSec += 80
				}
			}, diagnosis.CausePublish, "publishing weights +80 s"},
		{"a claim takes a minute", with(seedCase(), func(m *simRun) { m.engines, m.steps = 16, 20 }),
			func(in *diagnosis.Input) {
				for i := 8; i < len(in.Records); i++ {
					in.Records[i].Trainer.Phases[steprecord.PhaseWait] += 60
					in.Records[i].Trainer.WallSec += 60
				}
			}, diagnosis.CauseHandover, "takes 60 s to reach the trainer, was 0 s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			in := tt.run.input()
			tt.change(&in)
			r := diagnosis.Diagnose(in)
			page := strings.Join(strings.Fields(text(t, r)), " ")
			if len(r.Findings) == 0 || r.Findings[0].Cause != tt.cause || !strings.Contains(page, tt.says) {
				t.Fatalf("want %s and %q first\n%s", tt.cause, tt.says, text(t, r))
			}
			c := cause(r, tt.cause)
			if c.Share == nil || c.Share.Of < 0.5 || c.Share.Low > c.Share.Of || c.Share.High < c.Share.Of || c.Fix == nil {
				t.Errorf("share %+v, fix %+v", c.Share, c.Fix)
			}
			if c.Began != nil && c.Felt != nil && *c.Began > *c.Felt {
				t.Errorf("began in step %d, and was felt from step %d", *c.Began, *c.Felt)
			}
		})
	}
}
