package main

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/millrace/millrace/internal/face/cli"
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
			"see millrace fleet show --server %s", d.demo.Engines, d.demo.MaxEngines, d.demo.Speed, d.server)
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
	if d.engines, err = engineprocess.New(d.engineProcesses(), "dev"); err != nil {
		return err
	}
	var urls []string
	ports := map[rollout.EngineID]int{}
	d.engines.Port = func(id rollout.EngineID) int { return ports[id] }
	for i := range d.demo.Engines {
		seat, err := seatOf(i, known)
		if err != nil {
			return err
		}
		ports[rollout.EngineID(seat.name)] = seat.port
		if err := d.startEngineProcess(ctx, seat); err != nil {
			return err
		}
		if err := d.addEngine(ctx, client, seat.name, seat.url()); err != nil {
			return err
		}
		urls = append(urls, seat.url())
	}
	d.env.Say("%d simulated engines (A100, Qwen2.5-7B, LoRA; speed x%g): %s",
		len(urls), d.demo.Speed, strings.Join(urls, " "))
	d.startKeepingEngines(ctx)
	return nil
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
