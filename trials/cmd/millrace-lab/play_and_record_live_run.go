package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/millrace/millrace/internal/diagnosis/runrecord"
	"github.com/millrace/millrace/internal/face/cli"
	"github.com/millrace/millrace/internal/game/specfile"
	"github.com/millrace/millrace/internal/kit/freeport"
	"github.com/millrace/millrace/internal/kit/progressline"
	"github.com/millrace/millrace/internal/kit/retry"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/simulate/sim"
	"github.com/millrace/millrace/internal/simulate/sim/prediction"
	"github.com/millrace/millrace/trials/diagnosis/smallrecord"
)

// record is the record of a variant's live run, which is played unless it was before.
func (o predictOptions) record(
	ctx context.Context, env environment, example prediction.Example, v prediction.Variant,
) (*runrecord.Record, error) {
	path := filepath.Join(o.records, example.Name, v.Name+".json.gz")
	if !o.recorded {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return nil, err
		}
		spec, err := readSpec(filepath.Join(o.examples, example.Name+".yaml"))
		if err != nil {
			return nil, err
		}
		record, err := o.playLive(ctx, env, example.Name+"/"+v.Name, spec, v)
		if err != nil {
			return nil, fmt.Errorf("play %s: %w", v.Name, err)
		}
		smallrecord.Thin(record, o.compact)
		if err := cli.WriteRecord(record, path); err != nil {
			return nil, err
		}
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return runrecord.Read(path, file)
}

// playLive plays a variant with `millrace dev` as a child, and records it when it is over.
func (o predictOptions) playLive(
	ctx context.Context, env environment, name string, spec specfile.File, v prediction.Variant,
) (*runrecord.Record, error) {
	s := sim.Setup{Spec: spec.Spec}
	s.Fleet.Engines = spec.Demo.Engines
	v.Change(&s)
	s.Steps = v.Steps
	dir, remove, err := o.trial.dir()
	if err != nil {
		return nil, err
	}
	defer remove()
	file := filepath.Join(dir, "spec.json")
	document, err := json.Marshal(specfile.File{Spec: s.Spec, Demo: spec.Demo})
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(file, document, 0o644); err != nil {
		return nil, err
	}
	address, err := freeport.Address()
	if err != nil {
		return nil, err
	}
	env.say("playing %s: %d steps with %d engines", name, s.Steps, s.Fleet.Engines)
	args := []string{"dev", "--listen", address, "--spec", file, "--engines", fmt.Sprint(s.Fleet.Engines)}
	programs, err := o.trial.programs()
	if err != nil {
		return nil, err
	}
	args = append(args, "--temporal-bin", programs.Temporal)
	stop, err := startDev(filepath.Join(dir, "log"), programs.Millrace, args...)
	if err != nil {
		return nil, err
	}
	defer stop()
	client, err := cli.NewClient("http://"+address, "", env.http)
	if err != nil {
		return nil, err
	}
	line := progressline.Start(env.stderr, "playing "+name)
	defer line.End()
	return recordWhenOver(ctx, client, s.Spec, line)
}

// longestRun bounds a live run: the slowest example takes some minutes.
const longestRun = 30 * time.Minute

// recordWhenOver waits for a run's end and records it.
func recordWhenOver(ctx context.Context, client cli.Client, spec runspec.Spec, line *progressline.Line,
) (*runrecord.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, longestRun)
	defer cancel()
	var record *runrecord.Record
	err := retry.Until(ctx, time.Second, func(ctx context.Context) error {
		var err error
		if record, err = client.Record(ctx, spec.Name, time.Now()); err != nil {
			return err
		}
		line.At(int64(len(record.Done())), int64(spec.Steps), "steps", string(record.Run.State))
		if !record.Run.State.Over() || len(record.Done()) < spec.Steps {
			return errors.New("the run is not over yet")
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("wait for the end of run %s: %w", spec.Name, err)
	}
	return record, nil
}

// startDev starts `millrace dev` as a child with a log, and returns what ends it.
func startDev(logPath, millrace string, args ...string) (stop func(), err error) {
	log, err := os.Create(logPath)
	if err != nil {
		return nil, err
	}
	child := exec.Command(millrace, args...)
	child.Stdout, child.Stderr = log, log
	if err := child.Start(); err != nil {
		log.Close()
		return nil, fmt.Errorf("start millrace dev: %w", err)
	}
	return func() {
		defer log.Close()
		_ = child.Process.Signal(syscall.SIGINT)                                 // it may have ended
		kill := time.AfterFunc(time.Minute, func() { _ = child.Process.Kill() }) // the same
		_ = child.Wait()                                                         // interrupted
		kill.Stop()
	}, nil
}
