package turncost

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// window is how long one profile of the worker is: its making costs the worker some milliseconds.
const window = 5 * time.Second

// sampleProfiles takes profiles of the worker, one after the other, until what it returns is called; the last one is
// waited for.
func (s *measured) sampleProfiles(ctx context.Context) (stop func() ([]sample, error)) {
	type taken struct {
		samples []sample
		err     error
	}
	enough, done := make(chan struct{}), make(chan taken, 1)
	go func() {
		var t taken
		for {
			some, err := s.profile(ctx)
			t.samples, t.err = append(t.samples, some...), err
			select {
			case <-enough:
			default:
				if err == nil {
					continue
				}
			}
			done <- t
			return
		}
	}()
	return func() ([]sample, error) {
		close(enough)
		t := <-done
		return t.samples, t.err
	}
}

func (s *measured) profile(ctx context.Context) ([]sample, error) {
	url := fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", s.WorkerProfiles, int(window.Seconds()))
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("profile of the worker: %w", err)
	}
	defer resp.Body.Close()
	packed, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("profile of the worker: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("profile of the worker: %d %.200s", resp.StatusCode, packed)
	}
	return readProfile(packed)
}
