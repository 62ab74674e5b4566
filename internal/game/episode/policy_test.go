package episode_test

import (
	"context"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/game/episode"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
)

// pitted is tic-tac-toe whose O is played by a fixed policy; only X is rewarded.
type pitted struct{ episode.Environment }

type pittedGame struct{ episode.Game }

func (p pitted) Start(scenario []byte, seed int64, sample int) (episode.Game, error) {
	g, err := p.Environment.Start(scenario, seed, sample)
	return pittedGame{g}, err
}

func (g pittedGame) Prompts() ([]episode.Prompt, error) {
	prompts, err := g.Game.Prompts()
	for i := range prompts {
		if prompts[i].Agent == "O" {
			prompts[i].Policy = "frozen"
		}
	}
	return prompts, err
}

func (g pittedGame) Result() (episode.Result, error) {
	r, err := g.Game.Result()
	delete(r.Rewards, "O")
	return r, err
}

func TestFixedPoliciesAnswerAndAreNotRecorded(t *testing.T) {
	t.Parallel()
	e, b := &engine{}, &book{}
	p := player(e, b)
	p.Environment = pitted{board()}
	against := plan(1)
	against.Fixed = map[string]string{"frozen": "t:frozen"}
	ep, _, err := p.Play(t.Context(), against, scenario(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(ep.Trajectories) != 1 || ep.Trajectories[0].Agent != "X" {
		t.Errorf("trajectories %+v, want X's alone", ep.Trajectories)
	}
	for _, req := range e.seen {
		if want := map[string]string{"X": "t-v3", "O": "t:frozen"}[req.Agent]; req.Model != want {
			t.Errorf("%s was asked of %s, want %s", req.Agent, req.Model, want)
		}
	}

	_, _, err = p.Play(t.Context(), plan(1), scenario(t), nil)
	if rollout.KindOf(err) != rollout.Permanent || !strings.Contains(err.Error(), "frozen") {
		t.Errorf("a policy that the run does not have: %v", err)
	}
}

// A policy elsewhere is asked at its URL, for as many tokens as it may have, whatever the environment says of a bare
// answer; what it costs is none of the engines' work.
func TestPolicyElsewhere(t *testing.T) {
	t.Parallel()
	for given, want := range map[int]int{0: 64, 4096: 4096} {
		e, b := &engine{}, &book{}
		p := player(e, b)
		p.Environment = pitted{board()}
		against := plan(1)
		against.Sampling.MaxTokens = 64
		against.Elsewhere = map[string]runspec.FixedPolicy{"frozen": {URL: "https://x/v1", Model: "gpt-x", MaxTokens: given}}
		ep, _, err := p.Play(t.Context(), against, scenario(t), nil)
		if err != nil {
			t.Fatal(err)
		}
		turns := int64(len(ep.Trajectories[0].Turns))
		for _, req := range e.seen {
			if req.Agent == "O" && (req.URL != "https://x/v1" || req.Model != "gpt-x" || req.Sampling.MaxTokens != want) {
				t.Errorf("O was asked %+v", req)
			}
			if req.Agent == "X" && (req.URL != "" || req.Model != "t-v3") {
				t.Errorf("X was asked %+v", req)
			}
		}
		if len(ep.Trajectories) != 1 || ep.Usage.Requests != turns {
			t.Errorf("%d trajectories, %d requests counted for %d turns", len(ep.Trajectories), ep.Usage.Requests, turns)
		}
	}
}

func TestNewestVersionIsTakenAtEachPhase(t *testing.T) {
	t.Parallel()
	e, b := &engine{}, &book{}
	p := player(e, b)
	served := episode.Served{Model: "t-v3", Version: 3}
	p.Newest = func(context.Context) (episode.Served, error) { return served, nil }
	p.Beat = func(index int, _ string) {
		if index == 2 {
			served = episode.Served{Model: "t-v4", Version: 4}
		}
	}
	ep, _, err := p.Play(t.Context(), plan(1), scenario(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, req := range e.seen {
		want := rollout.PolicyVersion(4)
		if i < 2 {
			want = 3
		}
		if req.Version != want || req.Model != want.Adapter("t") {
			t.Errorf("request %d was for %s, version %d; want %d", i, req.Model, req.Version, want)
		}
	}
	for _, tr := range ep.Trajectories {
		for i, turn := range tr.Turns {
			want := rollout.PolicyVersion(4)
			if i == 0 {
				want = 3
			}
			if turn.PolicyVersion != want {
				t.Errorf("%s turn %d: version %d, want %d", tr.Agent, i, turn.PolicyVersion, want)
			}
		}
	}
}
