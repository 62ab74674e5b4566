package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/millrace/millrace/internal/kit/freeport"
	"github.com/millrace/millrace/internal/kit/retry"
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

// child is a process that this one has started.
type child struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

// stopPatience is how long a child may take to end.
const stopPatience = 30 * time.Second

func spawn(path string, args ...string) (child, error) {
	c := child{exec.Command(path, args...), make(chan struct{})}
	c.cmd.Stdout, c.cmd.Stderr = os.Stderr, os.Stderr
	if err := c.cmd.Start(); err != nil {
		return c, err
	}
	go func() {
		defer close(c.ended)
		_ = c.cmd.Wait() // it has said why it ended
	}()
	return c, nil
}

// end asks the child to end, and ends it if it does not. A second call does nothing.
func (c child) end() {
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	late := time.AfterFunc(stopPatience, func() { _ = c.cmd.Process.Kill() })
	<-c.ended
	late.Stop()
}

// engine is a simulated engine that fails when it is told to.
type engine struct {
	child
	url string
}

func simulate(millrace string) (engine, error) {
	address, err := freeport.Address()
	if err != nil {
		return engine{}, err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return engine{}, err
	}
	c, err := spawn(millrace, "engine", "simulate", "--faults", "--port", port, "--speed", "30", "--max-num-seqs", "6")
	return engine{c, "http://" + address}, err
}

func (e engine) fault(ctx context.Context, fault string) error {
	return e.send(ctx, http.MethodPost, fault)
}

func (e engine) send(ctx context.Context, method, fault string) error {
	req, err := http.NewRequestWithContext(ctx, method, e.url+"/sim/faults", strings.NewReader(fault))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	if resp.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("%s refuses the fault %s: %s", e.url, fault, resp.Status)
	}
	return nil
}

// hangFor has engines leave requests unanswered for a while.
func hangFor(ctx context.Context, engines []engine, d time.Duration) error {
	for _, e := range engines {
		if err := e.fault(ctx, `{"kind": "hang", "path": "/v1/completions"}`); err != nil {
			return err
		}
	}
	if err := retry.Pause(ctx, d); err != nil {
		return err
	}
	for _, e := range engines {
		if err := e.send(ctx, http.MethodDelete, ""); err != nil {
			return err
		}
	}
	return nil
}

// dev is `millrace dev`.
type dev struct {
	child
	server string
}

func start(millrace string, args ...string) (*dev, error) {
	address, err := freeport.Address()
	if err != nil {
		return nil, err
	}
	c, err := spawn(millrace, append([]string{"dev", "--listen", address}, args...)...)
	return &dev{c, "http://" + address}, err
}

// runNow is what is awaited of a run.
type runNow struct {
	State    string `json:"state"`
	NextStep int    `json:"next_step"`
}

// runPatience is how long a run may take to come to where it is shown.
const runPatience = 15 * time.Minute

// await looks at a run until it is as wanted.
func (d *dev) await(ctx context.Context, run string, done func(runNow) bool) error {
	ctx, cancel := context.WithTimeout(ctx, runPatience)
	defer cancel()
	for {
		var now runNow
		if err := d.get(ctx, "/v1/runs/"+run, &now); err == nil && done(now) {
			return nil
		}
		select {
		case <-d.ended:
			return errors.New("millrace dev has ended; see what it said above")
		default:
		}
		if err := retry.Pause(ctx, time.Second); err != nil {
			return fmt.Errorf("run %s does not come so far: %w", run, err)
		}
	}
}

// awaitPage asks for a page until it is there.
func (d *dev) awaitPage(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, runPatience)
	defer cancel()
	return retry.Until(ctx, time.Second, func(ctx context.Context) error {
		select {
		case <-d.ended:
			return errors.New("millrace dev has ended; see what it said above")
		default:
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.server+path, nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", path, resp.Status)
		}
		return nil
	})
}

func (d *dev) get(ctx context.Context, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.server+path, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(into)
}
