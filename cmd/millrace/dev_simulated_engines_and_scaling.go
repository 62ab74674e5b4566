package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/face/cli"
	"github.com/millrace/millrace/internal/kit/filelock"
	"github.com/millrace/millrace/internal/kit/freeport"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	engineprocess "github.com/millrace/millrace/internal/scaling/provider/process"
)

// startEngines makes the engines members of the fleet: those that the flags name, under names made of their
// addresses, or else simulated ones.
func (d *devStack) startEngines(ctx context.Context) error {
	client, err := d.env.Client(d.server)
	if err != nil {
		return err
	}
	switch {
	case d.scales():
		d.env.Say("the service scales its fleet: %d to %d simulated engines (A100, Qwen2.5-7B, LoRA; speed x%g); "+
			"see millrace engine scaling --server %s", d.demo.Engines, d.demo.MaxEngines, d.demo.Speed, d.server)
		return nil
	case len(d.opts.engines) == 0:
		return d.simulateEngines(ctx, client)
	}
	for _, address := range d.opts.engines {
		if err := d.addEngine(ctx, client, cli.EngineName(address), address); err != nil {
			return err
		}
	}
	return nil
}

// simulateEngines starts simulated engines. A Redis that was used before knows engines of these names: they come
// back at their old addresses, because an engine's name stands for one address.
func (d *devStack) simulateEngines(ctx context.Context, client cli.Client) error {
	known, _, err := client.Engines(ctx)
	if err != nil {
		return fmt.Errorf("list engines: %w", err)
	}
	var urls []string
	for i := range d.demo.Engines {
		seat, err := seatOf(i, known)
		if err != nil {
			return err
		}
		if err := d.spawn(seat.name, d.self, d.engineArgs(strconv.Itoa(seat.port))...); err != nil {
			return err
		}
		healthy := func(ctx context.Context) error {
			return d.env.awaitHealthy(ctx, seat.url()+"/health", time.Minute+d.coldStart())
		}
		if err := d.comesUp(ctx, seat.name, healthy); err != nil {
			return err
		}
		if err := d.addEngine(ctx, client, seat.name, seat.url()); err != nil {
			return err
		}
		urls = append(urls, seat.url())
	}
	d.env.Say("%d simulated engines (A100, Qwen2.5-7B, LoRA; speed x%g): %s",
		len(urls), d.demo.Speed, strings.Join(urls, " "))
	return nil
}

// engineArgs is the command line of a simulated engine.
func (d *devStack) engineArgs(port string) []string {
	args := []string{"engine", "simulate", "--port", port, "--seed", port, "--speed", fmt.Sprint(d.demo.Speed)}
	if d.opts.learn {
		args = append(args, "--policy")
	}
	if d.demo.EngineMaxNumSeqs > 0 {
		args = append(args, "--max-num-seqs", strconv.Itoa(d.demo.EngineMaxNumSeqs))
	}
	if d.demo.ColdStart > 0 {
		args = append(args, "--cold-start", d.demo.ColdStart.String())
	}
	return args
}

// coldStart is a simulated engine's in the demo's own time.
func (d *devStack) coldStart() time.Duration {
	return time.Duration(float64(d.demo.ColdStart) / d.demo.Speed)
}

func (d *devStack) addEngine(ctx context.Context, client cli.Client, name, address string) error {
	if _, _, err := client.AddEngine(ctx, name, address, d.demo.MaxInFlight()); err != nil {
		return fmt.Errorf("add engine %s: %w", address, err)
	}
	return nil
}

// seat is a simulated engine's name and port.
type seat struct {
	name string
	port int
}

func (s seat) url() string { return fmt.Sprintf("http://127.0.0.1:%d", s.port) }

// seatOf is where the i-th simulated engine goes: where the fleet knows it, when that is on this machine and free,
// else to a free port, under a name of its own when the usual one stands for another address.
func seatOf(i int, known []enginestate.Engine) (seat, error) {
	s := seat{name: fmt.Sprintf("engine-%d", i)}
	taken := false
	for _, e := range known {
		if string(e.ID) != s.name {
			continue
		}
		taken = true
		if port, ok := freeHere(e.URL); ok {
			s.port = port
			return s, nil
		}
	}
	var err error
	if s.port, err = freeport.Port(); err != nil {
		return seat{}, err
	}
	if taken {
		s.name += "-" + strconv.Itoa(s.port)
	}
	return s, nil
}

// freeHere is the port of an address on this machine's loopback that nothing listens on.
func freeHere(address string) (port int, ok bool) {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() != "127.0.0.1" {
		return 0, false
	}
	if port, err = strconv.Atoi(u.Port()); err != nil {
		return 0, false
	}
	l, err := net.Listen("tcp", u.Host)
	if err != nil {
		return 0, false
	}
	return port, l.Close() == nil
}

// scales reports whether the service itself decides how many engines there are.
func (d *devStack) scales() bool {
	return len(d.opts.engines) == 0 && d.demo.MaxEngines > 0
}

// engineGrace is how long a simulated engine that the service started may take to end.
const engineGrace = 10 * time.Second

// engineState is the folder of the orders and logs of engines that the service starts, and lifeline the file on which
// they live: they outlive the worker, and end with this process, however that ends.
func (d *devStack) engineState() string { return filepath.Join(d.dir, "engines") }

func (d *devStack) lifeline() string { return filepath.Join(d.dir, "lifeline") }

func (d *devStack) serviceFile() string { return filepath.Join(d.dir, "service.yaml") }

// prepareScaling holds the lifeline, takes away what an earlier use of the folder has left, and writes the service's
// configuration.
func (d *devStack) prepareScaling(ctx context.Context) (err error) {
	if !d.scales() {
		return nil
	}
	waiting, cancel := context.WithTimeout(ctx, 2*engineGrace)
	defer cancel()
	if d.releaseLifeline, err = filelock.Lock(waiting, d.lifeline()); err != nil {
		return fmt.Errorf("is another millrace dev using %s? %w", d.dir, err)
	}
	if err := engineprocess.StopAll(ctx, d.engineState()); err != nil {
		return err
	}
	return d.writeScaling()
}

// devWindow is how often a fleet that is simulated at its own speed is looked at.
const devWindow = 10 * time.Second

// writeScaling writes the configuration with which server and worker scale the fleet: by what shortens the demo's
// steps, in the demo's own time.
func (d *devStack) writeScaling() error {
	window := max(time.Duration(float64(devWindow)/d.demo.Speed), 200*time.Millisecond)
	section := map[string]any{
		"provider": "process", "policy": "starvation", "min": d.demo.Engines, "max": d.demo.MaxEngines,
		"window": rollout.Duration(window), "cold_start": rollout.Duration(max(d.coldStart(), time.Second)),
		"process": engineprocess.Config{Command: "{millrace} " + strings.Join(d.engineArgs("{port}"), " "),
			Env: []string{fmt.Sprintf("MILLRACE_DEV=%d", os.Getpid())}, MaxInFlight: d.demo.MaxInFlight(),
			Grace: rollout.Duration(engineGrace), StateDir: d.engineState(), Lifeline: d.lifeline()},
	}
	text, err := json.MarshalIndent(map[string]any{"scaling": section}, "", "  ") // which is YAML, too
	if err != nil {
		return err
	}
	return os.WriteFile(d.serviceFile(), text, 0o600)
}

// stopScaled ends what engines the service has started. When now is closed it stops being patient.
func (d *devStack) stopScaled(ctx context.Context, now <-chan struct{}) {
	if d.releaseLifeline == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*engineGrace)
	defer cancel()
	go func() {
		select {
		case <-now:
			cancel()
		case <-ctx.Done():
		}
	}()
	if err := engineprocess.StopAll(ctx, d.engineState()); err != nil && ctx.Err() == nil {
		d.env.Say("engines: %v", err)
	}
	d.releaseLifeline() // what has not ended does so now, by itself
}
