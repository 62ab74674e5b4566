package crashtest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/kit/freeport"
	"github.com/millrace/millrace/trials/crashtest/outside"
	"github.com/millrace/millrace/trials/stack"
)

// serveEnvironments starts those of a run that has any, once, and tells the plan where they are.
func (s *service) serveEnvironments(p *plan) error {
	if p.cfg.Shape != OpenEnv {
		return nil
	}
	for len(s.environments) < outsiders {
		address, err := freeport.Address()
		if err != nil {
			return err
		}
		name := fmt.Sprintf("environment-%d", len(s.environments))
		if err := s.Spawn(name, false, s.cfg.Lab, "environment", address); err != nil {
			return err
		}
		s.environments = append(s.environments, "http://"+address)
	}
	p.environments = s.environments
	return nil
}

// leftSessions says which environments have sessions though no game is played.
func (s *service) leftSessions(ctx context.Context) (violations []string) {
	for _, url := range s.environments {
		err := stack.Await(ctx, s.cfg.patient(time.Minute), func(ctx context.Context) error {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
			if err != nil {
				return err
			}
			resp, err := s.HTTP.Do(req)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			open, err := io.ReadAll(resp.Body)
			if err == nil && strings.TrimSpace(string(open)) != "0" {
				err = fmt.Errorf("%s sessions are open at %s though the run is over", bytes.TrimSpace(open), url)
			}
			return err
		})
		if err != nil {
			violations = append(violations, err.Error())
		}
	}
	return violations
}

// startPrograms starts those of a run that has any.
func (s *service) startPrograms(p plan) error {
	if p.cfg.Shape != External {
		return nil
	}
	for i := range outsiders {
		if err := s.Spawn(fmt.Sprintf("program-%d", i), true, s.cfg.Lab, "program", p.run(), "--server",
			"http://"+s.links["trainer-server"].address(), "--journal", p.file("programs", ".jsonl")); err != nil {
			return err
		}
	}
	return nil
}

func (s *service) endPrograms(p plan) {
	for i := range outsiders {
		if p.cfg.Shape == External {
			s.End(fmt.Sprintf("program-%d", i))
		}
	}
}

// generation is one answer of an engine: to what, and when it was asked.
type generation struct {
	prompt string
	begun  time.Time
	model  string // that answered
}

type promptKey struct{}

// rememberPrompt keeps what an engine is asked with the request.
func rememberPrompt(req *http.Request) *http.Request {
	g := generation{begun: time.Now()}
	body, err := io.ReadAll(req.Body)
	req.Body = io.NopCloser(bytes.NewReader(body))
	var asked struct {
		Prompt json.RawMessage `json:"prompt"`
	}
	if err != nil || json.Unmarshal(body, &asked) != nil {
		return req
	}
	g.prompt = string(asked.Prompt)
	return req.WithContext(context.WithValue(req.Context(), promptKey{}, g))
}

// generated is what engines have generated for a trajectory.
func (r *recorder) generated(trajectory string) []generation {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.made[trajectory])
}

// older is when Redis came back with what it had before, or another one did: what games had saved may be lost.
func (in *injector) older() (all []exchange) {
	for _, d := range in.done {
		switch d.Kind {
		case StaleRedis, TornRedis, SnapshotRedis, StaleNode, Failover, SplitRedis:
			all = append(all, exchange{d.when, d.began()})
		}
	}
	return all
}

// remembers is how long workers may go on by what Redis has lost, until they have noticed.
const remembers = 10 * time.Second

// wentBack reports whether Redis came back older between two moments.
func (o *outcome) wentBack(from, to time.Time) bool {
	return slices.ContainsFunc(o.older, func(e exchange) bool {
		return e.asked.Before(to) && e.done.Add(remembers).After(from)
	})
}

// outside checks what was played outside: each trajectory is what its program, or its environment, was answered, all
// of it and nothing else; and what a program was answered is never answered otherwise, nor generated again.
func (f *findings) outside(o outcome) {
	spans := f.answeredOnce(o)
	for k, batch := range o.batches {
		games := map[string][]string{} // their answers
		won := map[string]float64{}
		for _, id := range batch.trajectories {
			_, game, ok := gameOf(id)
			if !ok {
				continue // is complained of elsewhere
			}
			answers := batch.answers[id]
			games[game] = append(games[game], answers...)
			won[game] += batch.rewards[id]
			if span := spans[id]; o.plan.cfg.Shape != External || o.wentBack(span.asked, span.done) {
				continue
			}
			_, parts, _ := strings.Cut(id, "/")
			sample, agent := parts[:strings.LastIndex(parts, "/")], parts[strings.LastIndex(parts, "/")+1:]
			want := outside.Calls(strings.Replace(sample, "/", "-", 1), agent)
			if len(answers) != want || batch.rewards[id] != outside.Reward(answers) {
				f.complain("step %d, %s: %d turns with reward %v; its program made %d calls, and these answers are worth %v",
					k, id, len(answers), batch.rewards[id], want, outside.Reward(answers))
			}
		}
		for game, answers := range games {
			if wrong := outside.Wrong(answers); o.plan.cfg.Shape == OpenEnv && (wrong != "" || won[game] != 1) {
				f.complain("step %d, game %s: rewards of %v; %s", k, game, won[game], wrong)
			}
		}
	}
}

// answeredOnce checks what programs were answered, and tells from when to when each trajectory was played.
func (f *findings) answeredOnce(o outcome) map[string]exchange {
	spans := map[string]exchange{}
	void := map[string]bool{}
	first := map[string][]outside.Line{} // answers by trajectory, the first of each call
	for _, line := range o.said {
		if line.Broken != "" && !o.wentBack(line.Since, line.At) {
			f.complain("a program: %s", line.Broken)
		}
		void[line.Trajectory] = void[line.Trajectory] || line.Wayward
		span, known := spans[line.Trajectory]
		if !known || line.Since.Before(span.asked) {
			span.asked = line.Since
		}
		span.done = line.At
		spans[line.Trajectory] = span
	}
	for _, line := range o.said {
		if void[line.Trajectory] || line.Broken != "" {
			continue
		}
		f.calls++
		calls := first[line.Trajectory]
		at := slices.IndexFunc(calls, func(l outside.Line) bool { return l.Call == line.Call })
		switch {
		case at < 0:
			first[line.Trajectory] = append(calls, line)
		case calls[at].Answer != line.Answer && !o.wentBack(calls[at].At, line.At):
			f.complain("%s, call %d: was answered %q, and %s later %q", line.Trajectory, line.Call, calls[at].Answer,
				line.At.Sub(calls[at].At), line.Answer)
		}
	}
	for id, calls := range first {
		f.generatedOnce(o, id, calls)
	}
	return spans
}

// generatedOnce looks for calls that engines were asked again after their answer had reached a program. Prompts are
// of the calls in the order of their length: each holds the one before.
func (f *findings) generatedOnce(o outcome, trajectory string, calls []outside.Line) {
	made := o.generated(trajectory)
	prompts := []string{}
	for _, g := range made {
		if !slices.Contains(prompts, g.prompt) {
			prompts = append(prompts, g.prompt)
		}
	}
	slices.SortFunc(prompts, func(x, y string) int { return cmp.Compare(len(x), len(y)) })
	for _, g := range made {
		call := slices.Index(prompts, g.prompt)
		at := slices.IndexFunc(calls, func(l outside.Line) bool { return l.Call == call })
		if at >= 0 && g.begun.After(calls[at].At) && !o.wentBack(calls[at].At, g.begun) {
			f.again++
			f.complain("%s, call %d: was asked again %s after it was answered", trajectory, call, g.begun.Sub(calls[at].At))
		}
	}
}
