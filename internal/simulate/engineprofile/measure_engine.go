// Package engineprofile measures a live engine and makes a hardware profile of it (package enginemodel), with which
// runs can be simulated. Requests of chosen lengths are sent, so many at once; how long they take is held against the
// scheduler of the simulated engine, term by term; and the terms that explain the times best are the engine's cost.
//
// Prompts are made up and never repeat, so that no prefix cache helps. Start reading at Measure, then fitCost.
package engineprofile

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace/millrace/internal/engine/vllm"
	"github.com/millrace/millrace/internal/rollout"
)

// Engine is what is needed of a live engine. Its completions must go on to max_tokens (vllm.Config.IgnoreEOS).
type Engine interface {
	Complete(ctx context.Context, req rollout.Request) (rollout.Completion, error)
	Models(ctx context.Context) ([]vllm.Model, error)
	Metrics(ctx context.Context) (vllm.Sample, error)
	Version(ctx context.Context) (string, error)
}

var _ Engine = (*vllm.Client)(nil)

// measuring is a measurement in progress.
type measuring struct {
	cfg    Config
	engine Engine
	result Measurements
	random *rand.Rand
	words  float64 // per token of a prompt
	sent   int
	prompt int64 // tokens so far, and those of them found in the prefix cache
	cached int64
	began  time.Time
}

// Measure measures an engine, within cfg.MaxTime. The engine should have nothing else to do.
func Measure(ctx context.Context, engine Engine, cfg Config) (*Measurements, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Say == nil {
		cfg.Say = func(string, ...any) {}
	}
	if cfg.At == nil {
		cfg.At = func(int, int) {}
	}
	m := &measuring{cfg: cfg, engine: engine, random: rand.New(rand.NewPCG(cfg.Seed, 0)), words: 1, began: time.Now()}
	if err := m.meet(ctx); err != nil {
		return nil, err
	}
	if err := m.warmUp(ctx); err != nil {
		return nil, err
	}
	if err := m.rounds(ctx); err != nil {
		return nil, err
	}
	if m.prompt > 0 {
		m.result.CachedShare = float64(m.cached) / float64(m.prompt)
	}
	return &m.result, nil
}

// meet finds out what the engine serves.
func (m *measuring) meet(ctx context.Context) error {
	models, err := m.engine.Models(ctx)
	if err != nil {
		return fmt.Errorf("ask which models it serves: %w", err)
	}
	names := make([]string, len(models))
	for i := range models {
		names[i] = models[i].ID
	}
	find := func(name string) (vllm.Model, error) {
		i := slices.Index(names, name)
		if i < 0 {
			return vllm.Model{}, fmt.Errorf("it does not serve %q; it serves %s", name, strings.Join(names, ", "))
		}
		return models[i], nil
	}
	r := &m.result
	r.Model, r.Adapter = m.cfg.Model, m.cfg.Adapter
	if r.Model == "" {
		i := slices.IndexFunc(models, func(one vllm.Model) bool { return !one.Adapter() })
		if i < 0 {
			return errors.New("it lists no base model; name one with --model")
		}
		r.Model = names[i]
	}
	base, err := find(r.Model)
	if err == nil && base.Adapter() {
		if r.Adapter != "" && r.Adapter != r.Model {
			return fmt.Errorf("%s is an adapter, and so is %s: name the base model, %s, and one adapter", r.Model, r.Adapter,
				base.Parent)
		}
		r.Adapter, r.Model = r.Model, base.Parent
		m.cfg.Say("%s is an adapter of %s: both are measured", r.Adapter, r.Model)
		base, err = find(r.Model)
	}
	if err == nil && r.Adapter != "" {
		_, err = find(r.Adapter)
	}
	if err != nil {
		return err
	}
	const room = 256 // for the answer, and for prompts that become longer than they should
	if most := base.MaxModelLen - room; base.MaxModelLen > 0 && most < m.cfg.LongestPrompt {
		m.cfg.LongestPrompt = most
		if most < 512 {
			return fmt.Errorf("%s takes %d tokens at most; 768 are needed to measure it", r.Model, base.MaxModelLen)
		}
	}
	r.Version, _ = m.engine.Version(ctx) // an engine that does not say has none
	return nil
}

// warmUp lets the engine compile and allocate what it needs, and finds out how long words are and a call takes.
func (m *measuring) warmUp(ctx context.Context) error {
	probe := Setting{Batch: 1, Prompt: 400, Output: 1}
	for range 2 {
		_, prompts, err := m.send(ctx, probe, probe.Output)
		if err != nil {
			return err
		}
		m.words *= float64(probe.Prompt) / float64(prompts[0])
	}
	began := time.Now()
	if _, _, err := m.send(ctx, Setting{Batch: 1, Prompt: 32, Output: 32}, 32); err != nil {
		return err
	}
	step := time.Since(began) / 32
	for i := range 5 {
		began := time.Now()
		if _, err := m.engine.Models(ctx); err != nil {
			return fmt.Errorf("ask which models it serves: %w", err)
		}
		if took := time.Since(began).Seconds(); i == 0 || took < m.result.RoundTrip {
			m.result.RoundTrip = took
		}
	}
	began = time.Now()
	if _, _, err := m.send(ctx, Setting{Batch: 1, Prompt: m.cfg.LongestPrompt, Output: 1}, 1); err != nil {
		return err
	}
	token := time.Since(began) / time.Duration(m.cfg.LongestPrompt)
	var round time.Duration
	for _, s := range m.settings() {
		sends := 1
		if s.Less > 0 {
			sends = 2
		}
		round += time.Duration(sends*s.Batch*s.Prompt)*token + time.Duration(s.Output+s.Less)*step*3/2
	}
	m.cfg.Say("measuring %s: %d settings, %d rounds, about %.0f s (at most %.0f s)", m.result.Model, len(m.settings()),
		m.cfg.Rounds, (time.Duration(m.cfg.Rounds) * round).Seconds(), m.cfg.MaxTime.Seconds())
	return nil
}

func (m *measuring) settings() []Setting {
	all := m.cfg.plan()
	if m.result.Adapter != "" {
		all = append(all, m.cfg.adapterPlan()...)
	}
	return all
}

// rounds measures every setting so many times, one after the other, so that what changes slowly is felt by all of them.
func (m *measuring) rounds(ctx context.Context) error {
	settings := m.settings()
	rows := make([]Measured, len(settings))
	for round := range m.cfg.Rounds {
		began := time.Now()
		for i := range settings {
			s := &settings[i]
			m.cfg.At(round*len(settings)+i, m.cfg.Rounds*len(settings))
			if s.Batch > m.most() {
				continue
			}
			if time.Since(m.began) > m.cfg.MaxTime {
				if round == 0 {
					return fmt.Errorf("one round takes longer than %v: allow more time, or lower the largest batch or the "+
						"longest prompt", m.cfg.MaxTime)
				}
				m.cfg.Say("the time is up after %d of %d rounds", round, m.cfg.Rounds)
				m.conclude(rows)
				return nil
			}
			one, err := m.measure(ctx, s)
			if err != nil && rollout.CodeOf(err) == rollout.CodeOverloaded && s.Batch > 4 && ctx.Err() == nil {
				m.result.MaxSequences = s.Batch / 2
				m.cfg.Say("the engine refuses %d requests at once; going up to %d", s.Batch, s.Batch/2)
				continue
			}
			if err != nil {
				return err
			}
			rows[i] = Measured{*s, append(rows[i].Rounds, one)}
		}
		m.result.Rounds = round + 1
		m.cfg.Say("round %d of %d took %.1f s", round+1, m.cfg.Rounds, time.Since(began).Seconds())
	}
	m.conclude(rows)
	return nil
}

// most is how many requests the engine works on at once, as far as is known.
func (m *measuring) most() int {
	if m.result.MaxSequences > 0 {
		return m.result.MaxSequences
	}
	return m.cfg.MaxBatch
}

// conclude sorts the settings. One that the engine could not take whole tells of its queue and not of its steps.
func (m *measuring) conclude(rows []Measured) {
	for _, r := range rows {
		if len(r.Rounds) == 0 || r.Batch > m.most() {
			continue
		}
		if r.Adapter {
			m.result.WithAdapter = append(m.result.WithAdapter, r)
		} else {
			m.result.Base = append(m.result.Base, r)
		}
	}
}

// measure measures one setting once.
func (m *measuring) measure(ctx context.Context, s *Setting) (r Round, err error) {
	var shorter time.Duration
	if s.Less > 0 {
		if shorter, r.LessPrompts, err = m.send(ctx, *s, s.Less); err != nil {
			return r, err
		}
	}
	looked := make(chan struct{})
	ended, end := context.WithCancel(ctx)
	go func() {
		defer close(looked)
		m.look(ended, shorter, s.Batch)
	}()
	took, prompts, err := m.send(ctx, *s, s.Output)
	end()
	<-looked
	r.Prompts, r.Sec = prompts, (took - shorter).Seconds()
	return r, err
}

// look asks a busy engine, once all requests should be running, whether they are.
func (m *measuring) look(ctx context.Context, after time.Duration, batch int) {
	if after == 0 || batch == 1 {
		return
	}
	const looks = 3 // a request that came late waits, too, but only for the step under way
	running := 0
	for i := range looks {
		timer := time.NewTimer(after)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		after = max(after/8, time.Millisecond)
		sample, err := m.engine.Metrics(ctx)
		if err != nil {
			return // An engine that does not tell is believed to run what it is sent.
		}
		m.result.AdapterSlots = max(m.result.AdapterSlots, sample.MaxLoRAs)
		if sample.Waiting < 1 || i > 0 && int(sample.Running) != running {
			return
		}
		running = int(sample.Running)
	}
	if running >= 1 && running < batch && running < m.most() {
		m.result.MaxSequences = running
		m.cfg.Say("the engine runs %d requests at once, and lets the rest of %d wait", running, batch)
	}
}

// send sends a setting's requests at once and waits for the last answer.
func (m *measuring) send(ctx context.Context, s Setting, output int) (took time.Duration, prompts []int, err error) {
	model := m.result.Model
	if s.Adapter {
		model = m.result.Adapter
	}
	reqs := make([]rollout.Request, s.Batch)
	for i := range reqs {
		m.sent++
		reqs[i] = rollout.Request{
			ID: fmt.Sprintf("calibration-%d", m.sent), Model: model, Prompt: m.promptOf(s.Prompt), Seed: int64(m.sent),
			Timeout:  rollout.Duration(m.cfg.Timeout),
			Sampling: rollout.Sampling{Temperature: 1, TopP: 1, MaxTokens: output},
		}
	}
	prompts = make([]int, s.Batch)
	var mu sync.Mutex
	began := time.Now()
	g, ctx := errgroup.WithContext(ctx)
	for i := range reqs {
		g.Go(func() error {
			answer, err := m.engine.Complete(ctx, reqs[i])
			at := time.Since(began)
			if err != nil {
				return err
			}
			if got := len(answer.TokenIDs); got != output {
				return fmt.Errorf("an answer has %d tokens and not %d: does the engine know ignore_eos?", got, output)
			}
			mu.Lock()
			defer mu.Unlock()
			took = max(took, at)
			prompts[i] = len(answer.PromptTokenIDs)
			m.prompt, m.cached = m.prompt+int64(prompts[i]), m.cached+int64(max(0, answer.CachedTokens))
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return 0, nil, fmt.Errorf("%s: %w", s.describe(), err)
	}
	return took, prompts, nil
}

// vocabulary is short words that are one token of most tokenizers.
var vocabulary = strings.Fields("time year people way day man thing woman life child world school state family " +
	"student group country problem hand part place case week company system " +
	"program question work government number night point home water room mother " +
	"area money story fact month lot right study book eye job word business issue " +
	"side kind head house service friend father power hour game line end member " +
	"law car city community name president team")

// promptOf makes up a prompt of about so many tokens. The first words alone are one of many billions of beginnings.
func (m *measuring) promptOf(tokens int) string {
	var b strings.Builder
	for range max(1, int(float64(tokens)*m.words)) {
		b.WriteString(vocabulary[m.random.IntN(len(vocabulary))])
		b.WriteByte(' ')
	}
	return b.String()
}
