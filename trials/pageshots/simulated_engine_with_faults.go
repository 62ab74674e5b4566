package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/kit/freeport"
	"github.com/millrace/millrace/internal/kit/retry"
)

// engine is a simulated engine that fails when it is told to.
type engine struct {
	child
	url string
}

func simulate(millrace string) (engine, error) {
	address, err := freeport.Address()
	if err != nil {
		return engine{}, err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return engine{}, err
	}
	c, err := spawn(millrace, "engine", "simulate", "--faults", "--port", port, "--speed", "30", "--max-num-seqs", "6")
	return engine{c, "http://" + address}, err
}

func (e engine) fault(ctx context.Context, fault string) error {
	return e.send(ctx, http.MethodPost, fault)
}

func (e engine) send(ctx context.Context, method, fault string) error {
	req, err := http.NewRequestWithContext(ctx, method, e.url+"/sim/faults", strings.NewReader(fault))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	if resp.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("%s refuses the fault %s: %s", e.url, fault, resp.Status)
	}
	return nil
}

// hangFor has engines leave requests unanswered for a while.
func hangFor(ctx context.Context, engines []engine, d time.Duration) error {
	for _, e := range engines {
		if err := e.fault(ctx, `{"kind": "hang", "path": "/v1/completions"}`); err != nil {
			return err
		}
	}
	if err := retry.Pause(ctx, d); err != nil {
		return err
	}
	for _, e := range engines {
		if err := e.send(ctx, http.MethodDelete, ""); err != nil {
			return err
		}
	}
	return nil
}
