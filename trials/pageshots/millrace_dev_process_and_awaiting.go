package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/millrace/millrace/internal/kit/freeport"
	"github.com/millrace/millrace/internal/kit/retry"
)

// dev is `millrace dev`.
type dev struct {
	child
	server string
}

func start(millrace string, args ...string) (*dev, error) {
	address, err := freeport.Address()
	if err != nil {
		return nil, err
	}
	c, err := spawn(millrace, append([]string{"dev", "--listen", address}, args...)...)
	return &dev{c, "http://" + address}, err
}

// runNow is what is awaited of a run.
type runNow struct {
	State    string `json:"state"`
	NextStep int    `json:"next_step"`
}

// runPatience is how long a run may take to come to where it is shown.
const runPatience = 15 * time.Minute

// await looks at a run until it is as wanted.
func (d *dev) await(ctx context.Context, run string, done func(runNow) bool) error {
	ctx, cancel := context.WithTimeout(ctx, runPatience)
	defer cancel()
	for {
		var now runNow
		if err := d.get(ctx, "/v1/runs/"+run, &now); err == nil && done(now) {
			return nil
		}
		select {
		case <-d.ended:
			return errors.New("millrace dev has ended; see what it said above")
		default:
		}
		if err := retry.Pause(ctx, time.Second); err != nil {
			return fmt.Errorf("run %s does not come so far: %w", run, err)
		}
	}
}

// awaitPage asks for a page until it is there.
func (d *dev) awaitPage(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, runPatience)
	defer cancel()
	return retry.Until(ctx, time.Second, func(ctx context.Context) error {
		select {
		case <-d.ended:
			return errors.New("millrace dev has ended; see what it said above")
		default:
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.server+path, nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", path, resp.Status)
		}
		return nil
	})
}

func (d *dev) get(ctx context.Context, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.server+path, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(into)
}
