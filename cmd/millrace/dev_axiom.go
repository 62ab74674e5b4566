package main

import (
	"context"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"time"

	"github.com/millrace/millrace/internal/freeport"
	"github.com/millrace/millrace/internal/telemetry/axiom/resources"
)

// What the fake Axiom of `millrace dev` knows.
const (
	devAxiomToken = "xaat-dev"
	devDataset    = "millrace"
)

// startAxiom starts a fake Axiom, if it is asked for, and makes in it what `millrace axiom apply` makes. What it was
// given survives its own end, as it would with the real one.
func (d *devStack) startAxiom(ctx context.Context) error {
	if d.opts.axiom == "" {
		return nil
	}
	port, err := freeport.Port()
	if err != nil {
		return err
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	err = d.spawn("axiom", d.self, "axiom", "fake", "--listen", address, "--token", devAxiomToken, "--keep",
		filepath.Join(d.dir, "axiom"))
	if err != nil {
		return err
	}
	url := "http://" + address
	answers := func(ctx context.Context) error { return d.env.awaitHealthy(ctx, url+"/fake/faults", time.Minute) }
	if err := d.comesUp(ctx, "axiom", answers); err != nil {
		return err
	}
	axiom, err := resources.Connect(devAxiomToken, "", url, &http.Client{Timeout: 30 * time.Second})
	if err != nil {
		return err
	}
	plan, err := resources.Plan(ctx, axiom, resources.Wanted(devDataset), resources.Options{}, time.Now())
	if err == nil {
		err = resources.Apply(ctx, plan, func(resources.Change, error) {})
	}
	if err != nil {
		return err
	}
	d.axiom = url
	d.env.say("fake Axiom on %s: open it to see rows, dashboards and faults; dataset %s", url, devDataset)
	return nil
}
