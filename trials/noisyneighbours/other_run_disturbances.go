package noisyneighbours

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/millrace/millrace/internal/control/evaluation"
	"github.com/millrace/millrace/internal/face/apiclient"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// loadTimeout is the default of adapters.load_timeout: so long a publication waits for an engine that hangs.
const loadTimeout = 20 * time.Second

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

// evaluateHealthy has versions of the healthy run itself play beside its training.
func evaluateHealthy(ctx context.Context, s *site) (note string, err error) {
	var specs []runspec.Spec
	for _, against := range []string{"random", "v0"} {
		started, _, err := apiclient.Send[runstatus.RunStatus](ctx, s.api, http.MethodPost,
			apiclient.RunPath(healthy)+"/evaluations", evaluation.Asked{Against: against, Games: 256})
		if err != nil {
			return "", err
		}
		specs = append(specs, started.Spec)
	}
	wait(ctx)
	finished := 0
	for _, spec := range specs {
		account, err := s.store.Account(context.WithoutCancel(ctx), spec.Name)
		if err != nil {
			return "", err
		}
		finished += len(account.Ready) + int(account.NextStep)*spec.Buffer.GroupsPerStep
		if err := s.undo(http.MethodPost, apiclient.RunPath(spec.Name)+"/stop"); err != nil {
			return "", err
		}
	}
	if finished == 0 {
		return "", errors.New("no game of an evaluation was played on idle engines")
	}
	return fmt.Sprintf("%d games of evaluations were played", finished), nil
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
