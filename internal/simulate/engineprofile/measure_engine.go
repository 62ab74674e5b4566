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
	"github.com/millrace/millrace/internal/kit/stat"
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

// Config says how an engine is measured. Start from DefaultConfig.
type Config struct {
	Model   string // a base model, or an adapter; empty: the first base model that the engine lists
	Adapter string // empty: the LoRA factor is not measured, unless Model is an adapter

	MaxBatch      int // requests at once, at most
	LongestPrompt int // tokens, at most
	TokenBudget   int // that the engine is thought to have in a step; a smaller one is found out
	Rounds        int // measurements of each setting
	MaxTime       time.Duration
	Timeout       time.Duration // of one completion
	Seed          uint64        // of the prompts: another one for each calibration, or the prefix cache knows them

	Say func(format string, args ...any)
	// At is told how many measurements are done, and of how many; nil is fine.
	At func(done, of int)
}

// DefaultConfig measures for a minute or two on a GPU of today.
func DefaultConfig() Config {
	return Config{MaxBatch: 256, LongestPrompt: 8192, TokenBudget: 16384, Rounds: 3, MaxTime: 5 * time.Minute,
		Timeout: 2 * time.Minute}
}

// Validate reports everything that is wrong with c.
func (c Config) Validate() error {
	var errs []error
	require := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	require(c.MaxBatch >= 4 && c.MaxBatch <= 1024, "max batch: %d is not from 4 to 1024", c.MaxBatch)
	require(c.LongestPrompt >= 512, "longest prompt: %d tokens are less than 512, with which a prefill is hardly felt",
		c.LongestPrompt)
	require(c.TokenBudget >= 256, "token budget: %d is less than 256", c.TokenBudget)
	require(c.Rounds >= 1 && c.Rounds <= 100, "rounds: %d is not from 1 to 100", c.Rounds)
	require(c.MaxTime > 0 && c.Timeout > 0, "max time and timeout must be positive")
	return errors.Join(errs...)
}

// Setting is requests that are sent at once, all of about the same length.
type Setting struct {
	What    string // is measured
	Batch   int
	Prompt  int // tokens that each prompt should have
	Output  int // tokens
	Less    int // if set: the time is the difference to the same with so many output tokens
	Adapter bool
}

// Measured is a setting and its rounds.
type Measured struct {
	Setting
	Rounds []Round
}

// Round is one measurement of a setting. Prompts never have quite the length that they should, so each round has its
// own.
type Round struct {
	Prompts     []int // tokens
	LessPrompts []int // of the requests with the shorter answers
	Sec         float64
}

// seconds is the median of the rounds.
func (m *Measured) seconds() float64 {
	all := make([]float64, len(m.Rounds))
	for i := range m.Rounds {
		all[i] = m.Rounds[i].Sec
	}
	return stat.Median(all)
}

// Measurements are everything that was found out about an engine.
type Measurements struct {
	Model, Adapter string
	Version        string
	Base           []Measured
	WithAdapter    []Measured
	RoundTrip      float64 // seconds of a call that asks for nothing: the least of some
	MaxSequences   int     // that the engine runs at once, if it was fewer than it was sent; 0: not known
	AdapterSlots   int     // 0: not known
	Rounds         int
	CachedShare    float64 // of the prompts' tokens, found in the prefix cache in spite of all
	Took           time.Duration
}

// enough reports what is missing to fit a cost.
func (m *Measurements) enough() error {
	prefills, decodes := 0, 0
	for i := range m.Base {
		if m.Base[i].seconds() <= 0 {
			return fmt.Errorf("%s: %d more output tokens took no time: the engine is not measured, but something before it",
				m.Base[i].describe(), m.Base[i].Output-m.Base[i].Less)
		}
		if m.Base[i].Less == 0 {
			prefills++
		} else {
			decodes++
		}
	}
	if prefills < 3 || decodes < 3 {
		return fmt.Errorf("%d prefills and %d batches were measured; want 3 of each at least", prefills, decodes)
	}
	return nil
}

func (s *Setting) describe() string {
	return fmt.Sprintf("%d at once of %d prompt tokens", s.Batch, s.Prompt)
}

// plan is the settings: prefill by length, decode by batch, and decode by context.
func (c Config) plan() []Setting {
	var all []Setting
	for _, prompt := range []int{32, 64, 128, 256, 384, 512, 1024, 2048, 4096, 8192, 16384, 32768} {
		if prompt <= c.LongestPrompt {
			all = append(all, Setting{What: "prefill", Batch: 1, Prompt: prompt, Output: 1})
		}
	}
	for batch := 1; batch <= c.MaxBatch; batch *= 2 {
		all = append(all, Setting{What: "decode", Batch: batch, Prompt: 32, Output: 80, Less: 16})
	}
	// The shorter answer is long enough that all prompts are computed before the first request ends.
	for _, prompt := range []int{2048, 4096} {
		if prompt <= c.LongestPrompt {
			all = append(all, Setting{What: "context", Batch: min(16, c.MaxBatch), Prompt: prompt, Output: 160, Less: 64})
		}
	}
	return all
}

// adapterPlan is the settings that are measured again with an adapter.
func (c Config) adapterPlan() []Setting {
	var all []Setting
	for _, s := range c.plan() {
		if s.What == "prefill" && s.Prompt == 2048 || s.What == "decode" && (s.Batch == 1 || s.Batch == 8 || s.Batch == 32) {
			s.Adapter = true
			all = append(all, s)
		}
	}
	return all
}

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
	m.result.Took = time.Since(m.began)
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
