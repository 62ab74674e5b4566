package crashtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/millrace/millrace/internal/kit/retry"
	"github.com/millrace/millrace/trials/stack"
)

// injector does what the schedule says.
type injector struct {
	service    *service
	watch      *watch
	done       []injected
	refused    time.Time // when the trainer replaced last was refused
	violations []string  // seen while a fault was taken back
	stuck      int       // faults after which the run did not go on in time
	rollbacks  rollbacks
	second     string // address of the second deployment's server, once there is one

	deleted *injected  // a name that has not come back yet
	fault   sync.Mutex // held from a fault until the run has gone on

	exact int // how often there were exactly as many engines as were wanted
}

// injected is a fault that was done, and when.
type injected struct {
	Fault
	when  time.Time
	until time.Time // taken back; zero for kills
	// claimable reports whether there was a batch to claim.
	claimable bool
	// refused is when a replaced trainer that woke up was seen to be refused.
	refused    time.Time
	wentOn     time.Time // when the run was seen to go on, of a fault that is followed
	generation int64     // of the run's trainer just before
	run        string
}

func newInjector(s *service, w *watch) *injector {
	return &injector{service: s, watch: w}
}

// run injects a schedule's faults, beginning when the first batch is granted: before that there is little to lose.
func (in *injector) run(ctx context.Context, schedule *Schedule, duration time.Duration) {
	for {
		if _, account := in.watch.now(); account.ClaimedTo > 0 {
			break
		}
		if retry.Pause(ctx, watchEvery) != nil {
			return
		}
	}
	schedule.play(ctx, duration, in.one)
}

// one does one fault at a moment at which it costs something, and takes it back. It reports whether it was done.
func (in *injector) one(ctx context.Context, f Fault) bool {
	in.fault.Lock()
	defer in.fault.Unlock()
	in.worthwhile(ctx, f)
	if in.service.cfg.Deck == Names && !in.inTheMiddle() {
		in.service.say("  not done: %s: no run is in its middle", f)
		return false
	}
	run, account := in.watch.now()
	d := injected{Fault: f, when: time.Now(), generation: int64(account.Generation), run: run,
		claimable: account.ClaimedTo > 0}
	in.changeWanted(ctx, f)
	back, err := in.inject(ctx, f)
	if err != nil {
		in.service.say("  not done: %s: %v", f, err)
		return false
	}
	in.service.say("  %3d %s", len(in.done)+1, f)
	if back != nil {
		_ = retry.Pause(ctx, f.Hold) // cut short, it is taken back at once
		d.until = time.Now()
		back()
		d.refused, in.refused = in.refused, time.Time{}
	}
	if in.service.cfg.Deck == Names {
		in.follow(ctx, &d)
	}
	in.done = append(in.done, d)
	return true
}

// lose empties Redis once, in the middle of the first run.
func (in *injector) lose(ctx context.Context) {
	for retry.Pause(ctx, watchEvery) == nil {
		run, account := in.watch.now()
		if int(account.NextStep) < max(1, in.service.cfg.Run.Steps/4) {
			continue
		}
		in.watch.forgive()
		if err := in.service.rdb.FlushAll(ctx).Err(); err != nil {
			in.service.say("  not done: %s: %v", LoseRedis, err)
			continue
		}
		in.done = append(in.done, injected{Fault: Fault{Kind: LoseRedis}, when: time.Now(), run: run})
		in.service.say("  %s at step %d", LoseRedis, account.NextStep)
		return
	}
}

// worthwhile waits a while for a moment at which the fault costs something: the death of a worker or an engine while
// requests are under way, that of a trainer between two checkpoints, the absence of all engines during a publication.
func (in *injector) worthwhile(ctx context.Context, f Fault) {
	var now func() bool
	switch f.Kind {
	case KillWorker, KillEngine, KillProgram, StopProgram, KillEnvironment, StopEnvironment:
		now = in.service.recorder.busy
	case KillTrainer, ReplaceTrainer:
		now = func() bool {
			return in.service.PID(trainerOf(in.watch.current())) != 0 && in.watch.betweenCheckpoints()
		}
	}
	switch {
	case f.Kind == EnginesOutage:
		now = func() bool { return in.inTheMiddle() && in.publishing() }
	case in.service.cfg.Deck == Names:
		now = in.inTheMiddle
	case now == nil:
		return
	}
	ctx, cancel := context.WithTimeout(ctx, in.service.cfg.Every)
	defer cancel()
	for !now() && retry.Pause(ctx, 10*time.Millisecond) == nil {
	}
}

// inject does a fault and answers how to take it back.
func (in *injector) inject(ctx context.Context, f Fault) (back func(), err error) {
	switch f.Kind {
	case TerminateGroup, TerminateRun, TerminateFleet, ForgetRun, HangLoad, EnginesOutage, PublishAgain, PublishOther,
		SecondDeployment, EndWorker:
		return in.nameFault(ctx, f)
	}
	if f.Kind.ofScaling() {
		return in.scalingFault(ctx, f)
	}
	if f.Kind == StaleTemporal {
		return in.bringTemporalBackOlder()
	}
	verb, rest, _ := strings.Cut(string(f.Kind), "-")
	switch verb {
	case "replace":
		return in.replaceTrainer(ctx)
	case "away":
		return in.keepTemporalUnavailable()
	case "kill":
		if f.Kind == KillAll {
			return nil, in.killAll()
		}
		return nil, in.signal(in.process(ctx, rest, f.Index), syscall.SIGKILL)
	case "stop":
		name := in.process(ctx, rest, f.Index)
		if err := in.signal(name, syscall.SIGSTOP); err != nil {
			return nil, err
		}
		return func() { _ = in.signal(name, syscall.SIGCONT) }, nil // it may have been killed meanwhile
	case "cut":
		k := in.between(rest, f.Index)
		k.sever()
		return k.restore, nil
	case "hang":
		k := in.between(rest, f.Index)
		k.hang()
		return k.restore, nil
	}
	return in.redis(ctx, f)
}

// process is the name of a child; of Redis it is the node that has the run's account.
func (in *injector) process(ctx context.Context, part string, index int) string {
	switch part {
	case "redis":
		if node, err := in.service.masterOf(ctx, in.watch.current()); err == nil {
			_ = node.Close()
			return node.name
		}
	case "worker", "engine", "program", "environment":
		return fmt.Sprintf("%s-%d", part, index)
	case "trainer":
		return trainerOf(in.watch.current())
	}
	return part
}

// between is the link that a kind's name means.
func (in *injector) between(parts string, index int) *link {
	from, to, _ := strings.Cut(parts, "-")
	switch {
	case to == "engine":
		return in.service.links[fmt.Sprintf("engine-%d", index)]
	case from == "worker":
		return in.service.links[fmt.Sprintf("worker-%d-%s", index, to)]
	}
	return in.service.links[from+"-"+to]
}

// killAll kills every process that lives; it fails when none does.
func (in *injector) killAll() error {
	names := append([]string{"temporal", "server", trainerOf(in.watch.current())}, in.service.redisProcesses()...)
	for i := range workers {
		names = append(names, fmt.Sprintf("worker-%d", i))
	}
	for i := range engines {
		names = append(names, fmt.Sprintf("engine-%d", i))
	}
	for i := range outsiders {
		names = append(names, fmt.Sprintf("program-%d", i), fmt.Sprintf("environment-%d", i))
	}
	var last error
	killed := 0
	for _, name := range names {
		if err := in.signal(name, syscall.SIGKILL); err != nil {
			last = err
			continue
		}
		killed++
	}
	in.service.bought.killBought()
	if killed == 0 {
		return last
	}
	return nil
}

func (in *injector) signal(name string, sig syscall.Signal) error {
	pid := in.service.PID(name)
	if pid == 0 {
		return fmt.Errorf("%s is not running", name)
	}
	return syscall.Kill(pid, sig)
}

func (in *injector) redis(ctx context.Context, f Fault) (back func(), err error) {
	switch f.Kind {
	case FullRedis, SlowRedis:
		return in.slowOrFull(ctx, f)
	case StaleRedis, StaleNode, TornRedis, SnapshotRedis:
		return in.putRedisBack(ctx, f)
	case Failover:
		return in.failOver(ctx, f)
	case SplitRedis:
		return in.splitRedis(ctx, f)
	case MoveSlot:
		return nil, in.moveSlots(ctx, f)
	}
	return nil, fmt.Errorf("nobody knows how to do %s", f.Kind)
}

// slowOrFull keeps the node of Redis that has the run's account from writing.
func (in *injector) slowOrFull(ctx context.Context, f Fault) (back func(), err error) {
	node, err := in.service.masterOf(ctx, in.watch.current())
	if err != nil {
		return nil, err
	}
	if f.Kind == SlowRedis {
		defer node.Close()
		return func() {}, node.Do(ctx, "CLIENT", "PAUSE", f.Hold.Milliseconds(), "WRITE").Err()
	}
	if err := node.ConfigSet(ctx, "maxmemory", "1mb").Err(); err != nil {
		return nil, errors.Join(err, node.Close())
	}
	return func() { in.unfill(node) }, nil
}

// unfill gives Redis its memory back, however long it takes to be heard.
func (in *injector) unfill(node redisNode) {
	defer node.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := stack.Await(ctx, time.Minute, func(ctx context.Context) error {
		return node.ConfigSet(ctx, "maxmemory", "0").Err()
	})
	if err != nil {
		in.service.say("  redis keeps its limit: %v", err)
	}
}

func (in *injector) complain(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	in.service.say("  VIOLATION %s", text)
	in.violations = append(in.violations, text)
}

// inTheMiddle reports whether the run has steps behind it and enough before it to be seen going on.
func (in *injector) inTheMiddle() bool {
	p := in.watch.current()
	_, account := in.watch.now()
	return p.number > 0 && account.NextStep > 0 && int(account.NextStep)+p.cfg.Depth+1 < p.cfg.Steps
}

// nameFault does a fault of a name or an end.
func (in *injector) nameFault(ctx context.Context, f Fault) (back func(), err error) {
	switch f.Kind {
	case TerminateGroup:
		return in.terminateGroup(ctx)
	case TerminateRun:
		if _, err := in.service.temporal.terminate(ctx, "Run", 0); err != nil {
			return nil, err
		}
		return in.startAgain(ctx), nil
	case ForgetRun:
		if err := in.service.temporal.forget(ctx, "Run"); err != nil {
			return nil, err
		}
		return in.startAgain(ctx), nil
	case TerminateFleet:
		if _, err := in.service.temporal.terminate(ctx, "Fleet", 0); err != nil {
			return nil, err
		}
		return func() { in.expect(ctx, f, "the fleet has a keeper again", in.service.temporal.runs("Fleet")) }, nil
	case HangLoad:
		return in.hangLoad(ctx, f)
	case EnginesOutage:
		return in.cutEngines(), nil
	case PublishAgain, PublishOther:
		return nil, in.publish(ctx, f.Kind == PublishOther)
	case SecondDeployment:
		return nil, in.secondDeployment(ctx)
	case EndWorker:
		return nil, in.signal(in.process(ctx, "worker", f.Index), syscall.SIGTERM)
	}
	return nil, fmt.Errorf("nobody knows how to do %s", f.Kind)
}
