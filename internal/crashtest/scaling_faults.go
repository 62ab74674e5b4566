package crashtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/millrace/millrace/internal/filelock"
	"github.com/millrace/millrace/internal/fleet"
	"github.com/millrace/millrace/internal/freeport"
	"github.com/millrace/millrace/internal/retry"
	"github.com/millrace/millrace/internal/stack"
)

// What happens to a fleet that scales. All are of the deck Scaling.
const (
	ScaleUp   Kind = "scale-up"   // more engines are wanted
	ScaleDown Kind = "scale-down" // fewer are
	// KillWhileStarting has engines bought, and kills every worker and a starting engine in the middle of it.
	KillWhileStarting Kind = "kill-while-starting"
)

// Scaling is the deck of what happens to a fleet that scales, mixed with deaths.
const Scaling Deck = "scaling"

// ScalingKinds lists the kinds of the deck of scaling.
func ScalingKinds() []Kind {
	return []Kind{
		ScaleUp, ScaleUp, ScaleDown, ScaleDown, KillWhileStarting, KillWhileStarting, KillWorker, KillServer, KillTrainer,
		KillTemporal, KillRedis,
	}
}

// Of the engines that are bought: they are reached through the recorder, which listens at the same ports of another
// address of this host, from the moment that an engine runs at one.
const (
	mostBought    = 3
	boughtPorts   = 500 // none is taken twice, since the recorder stays
	boughtHost    = "127.0.0.2"
	boughtCold    = "4s"
	scalingID     = "millrace/scaling"
	scaledWithin  = time.Minute
	scalingUpdate = "settings"
)

// boughtEngines is what the harness knows of engines that are bought.
type boughtEngines struct {
	first   int    // port
	dir     string // of the provider's state
	release func() // of the file on which they live
}

// prepareScaling puts the recorder before every engine that is bought, until release.
func (s *service) prepareScaling(ctx context.Context) (err error) {
	if s.cfg.Deck != Scaling {
		return nil
	}
	b := &boughtEngines{dir: filepath.Join(s.cfg.Dir, "bought")}
	if b.first, err = freeport.Port(); err != nil {
		return err
	}
	b.first = min(b.first, 65535-boughtPorts)
	unlock, err := filelock.Lock(ctx, filepath.Join(s.cfg.Dir, "lifeline"))
	if err != nil {
		return err
	}
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.recordBought(watching, b)
	}()
	b.release = func() {
		stop()
		<-ended
		unlock()
	}
	s.bought = b
	return nil
}

// recordBought puts the recorder before every engine that begins to run, until ctx is done.
func (s *service) recordBought(ctx context.Context, b *boughtEngines) {
	recorded := map[int]bool{}
	for retry.Pause(ctx, 100*time.Millisecond) == nil {
		for _, port := range b.running() {
			if recorded[port] {
				continue
			}
			_, err := s.recorder.serveAt(fmt.Sprintf("%s:%d", boughtHost, port), engines+len(recorded),
				fmt.Sprintf("127.0.0.1:%d", port))
			if err != nil {
				s.say("  %v", err) // tried again
				continue
			}
			recorded[port] = true
		}
	}
}

// scalingSection is the section of the configuration by which the fleet scales.
func (s *service) scalingSection() string {
	if s.bought == nil {
		return ""
	}
	return fmt.Sprintf(`scaling:
  provider: process
  policy: fixed
  engines: %d
  min: 0
  max: %d
  window: 1s
  process:
    command: "{millrace} engine simulate --port {port} --speed %s --cold-start %s"
    host: %s
    ports: %d-%d
    state_dir: %q
    lifeline: %q
    grace: 2s
`, engines+1, engines+mostBought, engineSpeed, boughtCold, boughtHost, s.bought.first, s.bought.first+boughtPorts-1,
		s.bought.dir, filepath.Join(s.cfg.Dir, "lifeline"))
}

// scalingFault does a fault of scaling.
func (in *injector) scalingFault(ctx context.Context, f Fault) error {
	s := in.service
	registry := fleet.NewRegistry(s.rdb, prefix, time.Now)
	view, _, err := registry.Scaling(ctx)
	if err != nil {
		return err
	}
	to := engines + 1 + f.Chance%mostBought
	switch {
	case f.Kind == ScaleDown && view.Wanted <= engines:
		return errors.New("there is nothing to give back")
	case f.Kind == ScaleDown:
		to = engines + f.Chance%(view.Wanted-engines)
	case view.Wanted >= engines+mostBought:
		to = engines + mostBought - 1 // one goes, so that the next one has something to buy
	case to <= view.Wanted:
		to = view.Wanted + 1
	}
	if err := s.want(ctx, to); err != nil {
		return err
	}
	if f.Kind != KillWhileStarting {
		return nil
	}
	if err := retry.Pause(ctx, time.Duration(f.Chance%2000)*time.Millisecond); err != nil {
		return err
	}
	if f.Chance%2 == 0 {
		for pid := range s.bought.running() {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
			break
		}
	}
	var last error
	for i := range workers {
		if err := in.signal(fmt.Sprintf("worker-%d", i), syscall.SIGKILL); err != nil {
			last = err
		}
	}
	return last
}

// want has so many engines wanted, as an operator sets it.
func (s *service) want(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	handle, err := s.temporal.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: scalingID, UpdateName: scalingUpdate, Args: []any{map[string]any{"engines": n}},
		WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err != nil {
		return err
	}
	return handle.Get(ctx, nil)
}

// running is the engines that were bought: their ports by their process ids.
func (b *boughtEngines) running() map[int]int {
	ports := map[int]int{}
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range all {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		words := strings.Split(string(text), "\x00")
		if len(words) < 5 || words[1] != "engine" || words[2] != "simulate" {
			continue
		}
		port, err := strconv.Atoi(words[4])
		if err != nil || port < b.first || port >= b.first+boughtPorts {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			ports[pid] = port
		}
	}
	return ports
}

// checkScaling has the fleet come to exactly the engines that are wanted, with nobody left over, and then to none.
func (in *injector) checkScaling(ctx context.Context) {
	s := in.service
	if s.bought == nil {
		return
	}
	registry := fleet.NewRegistry(s.rdb, prefix, time.Now)
	for _, n := range []int{2, 0} {
		err := stack.Await(ctx, in.scaledWithin(), func(ctx context.Context) error { return s.want(ctx, engines+n) })
		if err == nil {
			err = stack.Await(ctx, in.scaledWithin(), func(ctx context.Context) error {
				view, _, err := registry.Scaling(ctx)
				switch run := len(s.bought.running()); {
				case err != nil:
					return err
				case run != n || len(view.Engines) != n || view.Actual.Serving != engines+n:
					return fmt.Errorf("%d engines run that were bought, and scaling knows %v, %+v; trouble %q", run,
						view.Engines, view.Actual, view.Trouble)
				}
				return nil
			})
		}
		if err != nil {
			in.complain("%d engines are to be bought: not within %v: %v", n, in.scaledWithin(), err)
			return
		}
		s.say("  %d engines are bought, as many as are wanted", n)
	}
}

func (in *injector) scaledWithin() time.Duration {
	return time.Duration(max(1, in.patience)) * scaledWithin
}
