package crashtest

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/trials/stack"
)

// refusedWithin is how long a replaced trainer may take to be refused: it may be in the middle of a step, and a
// publication waits for engines.
const refusedWithin = 30 * time.Second

// replaceTrainer stops the trainer and starts a successor, which takes over. Taken back, the old one goes on as if
// nothing had happened: it must be refused, and none of its steps may count. It is then started again, like every
// trainer that ends, and replaces the successor in its turn.
func (in *injector) replaceTrainer(ctx context.Context) (back func(), err error) {
	p := in.watch.current()
	name := trainerOf(p)
	if err := in.signal(name, syscall.SIGSTOP); err != nil {
		return nil, err
	}
	wake := func() { _ = in.signal(name, syscall.SIGCONT) } // whoever killed it meanwhile has woken it, too
	generation, err := in.servedGeneration(ctx, p, in.service.PID(name))
	if err == nil {
		err = in.service.succeed(p)
	}
	if err != nil {
		wake()
		return nil, err
	}
	return func() {
		within := in.service.cfg.patient(refusedWithin)
		ctx, cancel := context.WithTimeout(context.Background(), 2*within)
		defer cancel()
		tookOver := stack.Await(ctx, within, func(context.Context) error {
			if _, account := in.watch.now(); account.Generation > generation {
				return nil
			}
			return errors.New("the successor is not attached")
		})
		wake()
		if tookOver != nil {
			in.complain("%s: a successor of generation %d did not take over within %s", p.run(), generation, within)
			return
		}
		in.awaitRefusal(ctx, p, generation)
	}, nil
}

// servedGeneration is the generation of the trainer that serves the run, if it is that process and knows it itself: one
// that is just announcing itself, after another one was killed, has nothing yet that could be refused.
func (in *injector) servedGeneration(ctx context.Context, p plan, pid int) (rollout.TrainerGeneration, error) {
	account, err := in.service.store.Account(ctx, p.id())
	if err != nil {
		return 0, err
	}
	events, err := readLines[event](p.file("events", ".jsonl"))
	if err != nil {
		return 0, err
	}
	known := generationOf(events, pid)
	if known == 0 || rollout.TrainerGeneration(known) != account.Generation || int(account.NextStep) >= p.cfg.Steps {
		return 0, fmt.Errorf("the trainer is between two generations, or done: %d and %d", known, account.Generation)
	}
	return account.Generation, nil
}

// generationOf is the latest generation that a process says it has; 0: it has announced itself to nobody yet.
func generationOf(events []event, pid int) (generation int64) {
	for _, e := range events {
		if e.Event == attached && e.PID == pid {
			generation = max(generation, e.Generation)
		}
	}
	return generation
}

// awaitRefusal waits until the trainer of the generation says that it was refused.
func (in *injector) awaitRefusal(ctx context.Context, p plan, generation rollout.TrainerGeneration) {
	within := in.service.cfg.patient(refusedWithin)
	err := stack.Await(ctx, within, func(context.Context) error {
		events, err := readLines[event](p.file("events", ".jsonl"))
		if err != nil {
			return err
		}
		for _, e := range events {
			if e.Event == fenced && rollout.TrainerGeneration(e.Generation) == generation {
				return nil
			}
		}
		return errors.New("not yet")
	})
	if err != nil {
		in.complain("%s: the trainer of generation %d was replaced, woke up, and was not refused within %s: %v", p.run(),
			generation, within, err)
		return
	}
	in.refused = time.Now()
}
