package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// troubled is a run of short games whose engines leave requests unanswered for a while, become slow, and die while it
// goes on.
const troubled = `name: troubled
model: Qwen/Qwen2.5-7B-Instruct
steps: 200
environment: {kind: diplomacy, horizon_years: 1, train: all}
group: {samples: 4}
buffer: {depth: 2, groups_per_step: 6, max_staleness: 4, on_stale: drop}
sampling: {temperature: 0.8, max_tokens: 80}
adapters: {rank: 32, path_prefix: /tmp/adapters}
timeouts: {completion: 3s, phase: 4s, episode: 6s, heartbeat: 3s}
demo: {speed: 30, load: 2s, ref_logprobs: 5s, train: 75s, publish: 3s}
`

// The steps of the troubled run at which its troubles begin, and at which it is shown.
const (
	stepHung  = 8  // engines leave some requests unanswered: games fail
	stepSlow  = 14 // two engines become slow: the step time jumps
	stepLost  = 24 // the third one dies
	stepShown = 30
)

// hangTime is longer than a phase of the troubled run may take.
const hangTime = 14 * time.Second

// playAndShow plays the runs and takes their pictures.
func playAndShow(ctx context.Context, millrace, out, only string) error {
	millrace, err := filepath.Abs(millrace)
	if err != nil {
		return err
	}
	for _, one := range []struct {
		name string
		play func(context.Context, string, string) error
	}{{"login", showLogin}, {"seed-004", playSeed}, {"elastic", playElastic}, {"troubled", playTroubled}} {
		if only == "" || only == one.name {
			if err := one.play(ctx, millrace, out); err != nil {
				return fmt.Errorf("%s: %w", one.name, err)
			}
		}
	}
	return nil
}

// playSeed is the run of `make run`, shown when it is over.
func playSeed(ctx context.Context, millrace, out string) error {
	d, err := start(millrace, "--spec", "config/examples/seed-004.yaml")
	if err != nil {
		return err
	}
	defer d.end()
	if err := d.await(ctx, "seed-004", func(r runNow) bool { return r.State == "completed" }); err != nil {
		return err
	}
	return show(ctx, d.server, out, documented, []page{{"/", "seed-004-overview"}, {"/runs/seed-004", "seed-004-run"},
		{"/runs/seed-004/steps/3", "seed-004-step"}})
}

// stepScaled is a step of the elastic run at which its engines have come.
const stepScaled = 7

// playElastic is a run for which engines are bought.
func playElastic(ctx context.Context, millrace, out string) error {
	d, err := start(millrace, "--spec", "config/examples/elastic.yaml")
	if err != nil {
		return err
	}
	defer d.end()
	if err := d.await(ctx, "elastic", func(r runNow) bool { return r.NextStep >= stepScaled }); err != nil {
		return err
	}
	return show(ctx, d.server, out, documented, []page{{"/fleet", "fleet"}})
}

// showLogin is the page that who has no token sees.
func showLogin(ctx context.Context, millrace, out string) error {
	const token = "a-token-of-an-operator-for-a-picture"
	for _, name := range []string{"MILLRACE_TOKENS", "MILLRACE_TOKEN"} {
		if err := os.Setenv(name, token); err != nil {
			return err
		}
		defer func() { _ = os.Unsetenv(name) }()
	}
	d, err := start(millrace, "--engines", "1")
	if err != nil {
		return err
	}
	defer d.end()
	if err := d.awaitPage(ctx, "/login"); err != nil {
		return err
	}
	return show(ctx, d.server, out, documented, []page{{"/login", "login"}})
}

// playTroubled is the run of which everything is shown.
func playTroubled(ctx context.Context, millrace, out string) error {
	dir, err := os.MkdirTemp("", "pageshots")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	spec := filepath.Join(dir, "troubled.yaml")
	if err := os.WriteFile(spec, []byte(troubled), 0o600); err != nil {
		return err
	}
	args := []string{"--spec", spec}
	var engines []engine
	for range 3 {
		e, err := simulate(millrace)
		if err != nil {
			return err
		}
		defer e.end()
		engines = append(engines, e)
		args = append(args, "--engine", e.url)
	}
	d, err := start(millrace, args...)
	if err != nil {
		return err
	}
	defer d.end()
	for _, trouble := range []struct {
		step int
		do   func() error
	}{
		{stepHung, func() error { return hangFor(ctx, engines, hangTime) }},
		{stepSlow, func() error {
			slow := `{"kind": "slow", "factor": 14}`
			return errors.Join(engines[0].fault(ctx, slow), engines[1].fault(ctx, slow), engines[2].fault(ctx, slow))
		}},
		{stepLost, func() error { engines[2].end(); return nil }},
		{stepShown, func() error { return nil }},
	} {
		if err := d.await(ctx, "troubled", func(r runNow) bool { return r.NextStep >= trouble.step }); err != nil {
			return err
		}
		if err := trouble.do(); err != nil {
			return err
		}
	}
	pages, err := d.troubledPages(ctx)
	if err != nil {
		return err
	}
	return show(ctx, d.server, out, documented, pages)
}

// troubledPages is every page of the troubled run that has something to show.
func (d *dev) troubledPages(ctx context.Context) ([]page, error) {
	const run = "/runs/troubled"
	var pages []page // those of games first, which are kept for a few steps only
	var list struct {
		Games []struct {
			Game  string `json:"game"`
			Group int    `json:"group"`
			State string `json:"state"`
			Kept  bool   `json:"kept"`
		} `json:"games"`
	}
	for _, find := range []struct{ query, name string }{
		{"state=finished&limit=500", "game"}, {"code=any&sort=failure&state=failed", "failed-game"},
		{"code=any&sort=failure", "failed-game"}} {
		if err := d.get(ctx, "/v1"+run+"/games?"+find.query, &list); err != nil {
			return nil, err
		}
		found := slices.ContainsFunc(pages, func(p page) bool { return p.name == find.name })
		for _, g := range list.Games {
			if found || find.name == "game" && !g.Kept {
				continue
			}
			found = true
			at := run + "/games" + strings.TrimPrefix(g.Game, "troubled")
			pages = append(pages, page{at, find.name})
			if find.name == "game" {
				pages = append(pages, page{at + "/turns/2", "turn"}, page{fmt.Sprintf("%s/groups/%d", run, g.Group), "group"})
			}
		}
		if !found && !strings.Contains(find.query, "failed") {
			return nil, fmt.Errorf("no game with %s", find.query)
		}
	}
	for _, tab := range []string{"curve", "steps", "games", "events", "spec"} {
		pages = append(pages, page{run + "/" + tab, "run-" + tab})
	}
	pages = append(pages, page{run, "run"}, page{"/", "overview"}, page{run + "/do/pause", "pause"},
		page{fmt.Sprintf("%s/steps/%d", run, stepLost+4), "step"})
	var fleet struct {
		Engines []struct {
			ID    string `json:"id"`
			State string `json:"state"`
		} `json:"engines"`
	}
	if err := d.get(ctx, "/v1/engines", &fleet); err != nil {
		return nil, err
	}
	for _, e := range fleet.Engines {
		name := "engine"
		if e.State == "lost" {
			name = "lost-engine"
		}
		pages = append(pages, page{"/engines/" + e.ID, name})
	}
	return pages, nil
}
