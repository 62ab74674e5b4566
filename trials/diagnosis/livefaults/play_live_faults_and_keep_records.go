// Command livefaults plays runs with known faults on the whole service, with simulated engines, and keeps their
// records: what diagnosis is held to where nothing is modelled but the engines' speed. Each takes one to three minutes.
//
// Start reading at cases.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"time"

	"github.com/millrace/millrace/internal/face/apiclient"
	"github.com/millrace/millrace/internal/face/demotrainer"
	"github.com/millrace/millrace/internal/kit/freeport"
	"github.com/millrace/millrace/internal/kit/retry"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "livefaults:", err)
		os.Exit(1)
	}
}

func run() error {
	millrace := flag.String("millrace", ".bin/millrace", "the binary under test")
	only := flag.String("only", "", "cases whose name matches this expression")
	out := flag.String("out", "trials/diagnosis/livefaults/testdata", "folder for the records")
	flag.Parse()
	pattern, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	binary, err := filepath.Abs(*millrace)
	if err != nil {
		return err
	}
	var failed error
	for _, c := range cases {
		if !pattern.MatchString(c.name) {
			continue
		}
		began := time.Now()
		if err := play(context.Background(), binary, c, *out); err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", c.name, err))
			continue
		}
		fmt.Printf("%-24s %4.0f s\n", c.name, time.Since(began).Seconds())
	}
	return failed
}

// play plays one case and keeps its record.
func play(ctx context.Context, millrace string, c liveCase, out string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "livefaults-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			text, _ := os.ReadFile(log.Name())
			err = fmt.Errorf("%w\n%s", err, tail(string(text), 2000))
		}
		err = errors.Join(err, log.Close())
	}()
	s := &site{millrace: millrace, dir: dir, log: log}
	defer s.stop()
	args := []string{"dev", "--spec", filepath.Join(dir, "spec.yaml"), "--no-trainer"}
	for range c.engines {
		e, err := s.startEngine(0, c.engineArgs...)
		if err != nil {
			return err
		}
		args = append(args, "--engine", e.url())
	}
	spec := fmt.Sprintf(specText, c.steps(), c.buffer(), filepath.Join(dir, "adapters"))
	if err := os.WriteFile(filepath.Join(dir, "spec.yaml"), []byte(spec), 0o600); err != nil {
		return err
	}
	address, err := freeport.Address()
	if err != nil {
		return err
	}
	s.server = "http://" + address
	dev := exec.CommandContext(ctx, millrace, append(args, "--listen", address)...)
	dev.Stdout, dev.Stderr = log, log
	dev.Cancel = func() error { return dev.Process.Signal(os.Interrupt) }
	if err := dev.Start(); err != nil {
		return err
	}
	defer func() {
		_ = dev.Process.Signal(os.Interrupt) // it may be over already
		_ = dev.Wait()
	}()
	client, err := apiclient.New(s.server, "", http.DefaultClient)
	if err != nil {
		return err
	}
	known := func(ctx context.Context) error {
		_, err := client.Call(ctx, http.MethodGet, "/v1/runs/live", "", nil)
		return err
	}
	if err := retry.Within(ctx, 2*time.Minute, time.Second, known); err != nil {
		return fmt.Errorf("the run does not begin: %w", err)
	}
	hit := func(step int64, phase string) time.Duration {
		if phase == "wait" && c.at != nil {
			c.at(s, step)
		}
		if c.also == nil {
			return 0
		}
		return c.also(step, phase)
	}
	training, stop := context.WithCancel(ctx)
	defer stop()
	cfg := demotrainer.Config{Server: s.server, Run: "live", Log: log, Load: 100 * time.Millisecond,
		RefLogprobs: 600 * time.Millisecond, Train: 2500 * time.Millisecond, Publish: 50 * time.Millisecond,
		Also: func(step int64, phase string) time.Duration {
			if step >= int64(c.steps()-2) { // a run that is not over yet, as most are when they are diagnosed
				stop()
			}
			return hit(step, phase)
		}}
	if err := demotrainer.Run(training, cfg); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	file := filepath.Join(out, c.name+".json.gz")
	if err := os.MkdirAll(out, 0o750); err != nil {
		return err
	}
	whole := filepath.Join(dir, "record.json.gz")
	if err := s.command("run", "record", "live", "-f", whole); err != nil {
		return err
	}
	return compact(whole, file)
}
