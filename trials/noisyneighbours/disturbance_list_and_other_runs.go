package noisyneighbours

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/millrace/millrace/internal/face/apiclient"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
)

// disturbance is something that a healthy run must not feel.
type disturbance struct {
	name string
	what string // for people
	// disturb begins at once, goes on until ctx is done, and takes back what it did. Its note says how it was
	// answered, its error that it could not be done or taken back, which counts as a broken bound.
	disturb func(ctx context.Context, s *site) (note string, err error)
	once    time.Duration // that it may hold up one step, as documented; not counted in the time per step
	spoils  bool          // it leaves too much behind for the next one
}

// loadTimeout is the default of adapters.load_timeout: so long a publication waits for an engine that hangs.
const loadTimeout = 20 * time.Second

// disturbances lists them all. Those that leave something behind come last.
func disturbances() []disturbance {
	return []disturbance{
		{name: "timeouts", what: "a run whose every completion times out", disturb: timingOut(40*time.Millisecond, 2, 4, 6)},
		{name: "absurd", what: "the same with 2 x 16 x 16 games and 1 ms for a completion",
			disturb: timingOut(time.Millisecond, 2, 16, 16)},
		{name: "no-model", what: "a run of 2 x 4 x 6 games with a model that nobody serves", disturb: nobodyServes(2, 4, 6)},
		{name: "misspelt", what: "the same with 2 x 16 x 64 games", disturb: nobodyServes(2, 16, 64)},
		{name: "fifo", what: "a run that publishes an adapter whose weights are a pipe", disturb: publishPipe},
		{name: "refusing", what: "an engine that answers canaries and refuses games with 400", disturb: misbehaving(refuse)},
		{name: "long-answers", what: "an engine that answers 20 MB of text and 5,000 tokens", disturb: misbehaving(ramble)},
		{name: "hostile", what: "an engine that answers each game in another bad way, of some 50",
			disturb: misbehaving(everyWay())},
		{name: "models", what: "an engine that lists 100,000 adapters", disturb: misbehaving(listMany)},
		{name: "metrics", what: "an engine with 16 MiB of metrics, 1.5 million names", disturb: misbehaving(measureMany)},
		{name: "hung-load", what: "an engine that hangs whenever an adapter is loaded", disturb: hangOnLoad,
			once: loadTimeout},
		{name: "changes", what: "100 engines changed at the same time, again and again", disturb: changeEngines},
		{name: "diagnoses", what: "60 diagnoses at the same time, again and again", disturb: diagnose},
		{name: "claims", what: "2,000 claims that wait for a batch of another run", disturb: waitingClaims},
		{name: "connections", what: "1,500 connections that say nothing", disturb: connections},
		{name: "streams", what: "1,000 streams of events that are never read", disturb: streams},
		{name: "records", what: "40 step records with 0.95 MB of metrics, read by 8 at a time", disturb: bigRecords},
		{name: "games", what: "a run of 1.5 million games", disturb: manyGames, spoils: true},
		{name: "engines", what: "3,000 dead engines added", disturb: deadEngines, spoils: true},
		{name: "runs", what: "600 runs of one game started", disturb: manyRuns, spoils: true},
	}
}

// start starts a run beside the healthy one and returns how to stop it.
func (s *site) start(ctx context.Context, spec runspec.Spec) (stop func() error, err error) {
	a, err := s.call(ctx, http.MethodPost, "/v1/runs", spec)
	if err == nil && a.Status >= http.StatusBadRequest {
		err = refusal(a)
	}
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}
	return func() error { return s.undo(http.MethodPost, "/v1/runs/"+string(spec.Name)+"/stop") }, nil
}

// beside runs a run beside the healthy one until ctx is done.
func (s *site) beside(ctx context.Context, spec runspec.Spec) error {
	stop, err := s.start(ctx, spec)
	if err != nil {
		return err
	}
	wait(ctx)
	return stop()
}

func timingOut(completion time.Duration, depth, groups, samples int) func(context.Context, *site) (string, error) {
	return func(ctx context.Context, s *site) (string, error) {
		spec := s.spec(rollout.RunName(s.unique("impatient")))
		spec.Buffer.Depth, spec.Buffer.GroupsPerStep = depth, groups
		spec.Group = runspec.GroupSpec{Samples: samples, MinSamples: samples}
		spec.Timeouts.Completion = rollout.Duration(completion)
		spec.Timeouts.Episode, spec.Timeouts.Heartbeat = rollout.Duration(5*time.Second), rollout.Duration(2*time.Second)
		return "", s.beside(ctx, spec)
	}
}

func nobodyServes(depth, groups, samples int) func(context.Context, *site) (string, error) {
	return func(ctx context.Context, s *site) (string, error) {
		spec := s.spec(rollout.RunName(s.unique("misspelt")))
		spec.Model = "Qwen/Qwen2.5-7B-Intsruct"
		spec.Buffer.Depth, spec.Buffer.GroupsPerStep = depth, groups
		spec.Group = runspec.GroupSpec{Samples: samples, MinSamples: samples}
		return "", s.beside(ctx, spec)
	}
}

// manyGames asks for 1.5 million games, and where that is refused for as many as are accepted.
func manyGames(ctx context.Context, s *site) (note string, err error) {
	spec := s.spec(rollout.RunName(s.unique("greedy")))
	spec.Buffer.Depth, spec.Buffer.GroupsPerStep = 1, 1500
	for samples := 1024; samples > 0; samples /= 2 {
		spec.Group = runspec.GroupSpec{Samples: samples, MinSamples: samples}
		stop, err := s.start(ctx, spec)
		if ctx.Err() != nil {
			return note, nil
		}
		if err != nil {
			if note == "" {
				note = fmt.Sprintf("%d games: %v; ", 1500*samples, err)
			}
			continue
		}
		wait(ctx)
		return fmt.Sprintf("%s%d games accepted", note, 1500*samples), stop()
	}
	return note + "none accepted", nil
}

// publishPipe publishes, on behalf of a run of its own, an adapter whose weights are a named pipe: whoever reads it
// waits.
func publishPipe(ctx context.Context, s *site) (string, error) {
	name := s.unique("piper")
	spec := s.spec(rollout.RunName(name))
	stop, err := s.start(ctx, spec)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(s.dir, "adapters", name)
	if err := writePipe(dir); err != nil {
		return "", err
	}
	a, err := s.call(ctx, http.MethodPut, "/v1/runs/"+name+"/policies/1", map[string]any{"path": dir})
	note := "the publication was not answered"
	switch {
	case err == nil:
		note = refusal(a).Error()
		wait(ctx)
	case !ours(err):
		return "", err
	}
	return note, stop()
}

func writePipe(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	config := `{"peft_type":"LORA","r":8,"lora_alpha":16,"target_modules":["q_proj"],"bias":"none"}`
	if err := os.WriteFile(filepath.Join(dir, "adapter_config.json"), []byte(config), 0o644); err != nil {
		return err
	}
	return syscall.Mkfifo(filepath.Join(dir, "adapter_model.safetensors"), 0o644)
}

// many does something n times, so many at a time, and counts the answers by status. It stops when ctx is done.
func many(ctx context.Context, n, atATime int, do func(context.Context, int) (apiclient.Answer, error)) *tally {
	t := &tally{}
	queue := make(chan int)
	done := make(chan struct{})
	for range atATime {
		go func() {
			for i := range queue {
				a, err := do(ctx, i)
				t.note(a, err)
			}
			done <- struct{}{}
		}()
	}
	for i := 0; i < n && ctx.Err() == nil; i++ {
		queue <- i
	}
	close(queue)
	for range atATime {
		<-done
	}
	return t
}

func manyRuns(ctx context.Context, s *site) (string, error) {
	t := many(ctx, 600, 8, func(ctx context.Context, i int) (apiclient.Answer, error) {
		spec := s.spec(rollout.RunName(s.unique("tiny")))
		spec.Steps, spec.Buffer.Depth, spec.Buffer.GroupsPerStep = 1, 1, 1
		spec.Group = runspec.GroupSpec{Samples: 1, MinSamples: 1}
		return s.call(ctx, http.MethodPost, "/v1/runs", spec)
	})
	wait(ctx)
	return t.String(), nil
}

func deadEngines(ctx context.Context, s *site) (string, error) {
	t := many(ctx, 3000, 8, func(ctx context.Context, i int) (apiclient.Answer, error) {
		url := fmt.Sprintf("http://127.77.%d.%d:9", i/250, i%250+1) // loopback, and nobody there
		return s.call(ctx, http.MethodPut, "/v1/engines/"+s.unique("dead"), map[string]any{"url": url})
	})
	wait(ctx)
	return t.String(), nil
}
