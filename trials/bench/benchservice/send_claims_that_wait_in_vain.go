package benchservice

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/internal/face/apiclient"
	"github.com/millrace/millrace/internal/rollout"
)

const (
	waitingRun  = rollout.RunName("waits")
	claimWait   = 60 * time.Second       // of a claim, as long as a server lets it wait
	untilQuiet  = 3 * time.Second        // after the last claim was sent
	askAgain    = 100 * time.Millisecond // after too many at a time
	lookEvery   = 250 * time.Millisecond
	openTimeout = time.Minute // until all claims wait
)

// Waiting has so many ranks of a trainer wait for a batch that does not come, while do is done. Those whose claims come
// to an end claim again, as many in each second as ever.
func (s *Service) Waiting(ctx context.Context, ranks int, do func(context.Context) error) error {
	spec := s.Spec(waitingRun, PhasesPerYear, 1, 1)
	if err := s.Buffer.Open(ctx, spec); err != nil { // there are no games in it, and nobody plays any
		return err
	}
	claiming, cancel := context.WithCancel(ctx)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: ranks}}
	defer client.CloseIdleConnections()
	var begun atomic.Int64
	var claims sync.WaitGroup
	failed := make(chan error, ranks)
	for rank := range ranks {
		first := claimWait * time.Duration(rank+1) / time.Duration(ranks)
		claims.Go(func() {
			time.Sleep(first / 30) // so that they do not come all at once
			for wait := first; ; wait = claimWait {
				if err := s.claimInVain(claiming, client, rank, ranks, wait, &begun); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	err := allWait(ctx, ranks, &begun, failed)
	if err == nil {
		err = do(ctx)
	}
	cancel()
	claims.Wait()
	return errors.Join(err, s.Buffer.Delete(context.WithoutCancel(ctx), waitingRun))
}

// allWait returns some seconds after all claims have been sent.
func allWait(ctx context.Context, ranks int, begun *atomic.Int64, failed chan error) error {
	over := time.NewTimer(openTimeout)
	defer over.Stop()
	for begun.Load() < int64(ranks) {
		select {
		case err := <-failed:
			return fmt.Errorf("a waiting claim: %w", err)
		case <-over.C:
			return fmt.Errorf("%d of %d claims wait after %v", begun.Load(), ranks, openTimeout)
		case <-time.After(lookEvery):
		}
	}
	select {
	case err := <-failed:
		return fmt.Errorf("a waiting claim: %w", err)
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(untilQuiet):
		return nil
	}
}

// claimInVain claims a batch that does not come. It counts itself as soon as it is sent.
func (s *Service) claimInVain(ctx context.Context, client *http.Client, rank, ranks int, wait time.Duration,
	begun *atomic.Int64) error {
	url := fmt.Sprintf("http://%s%s/steps/0/claim?wait=%ds&rank=%d&world=%d", s.Server, apiclient.RunPath(waitingRun),
		int(wait.Seconds())+1, rank, ranks)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, http.NoBody)
	if err != nil {
		return err
	}
	begun.Add(1)
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if resp.StatusCode == http.StatusTooManyRequests { // too many at a time: a client asks again
		time.Sleep(askAgain)
		return err
	}
	if err == nil && resp.StatusCode != http.StatusNoContent {
		err = fmt.Errorf("answered %d: %.200s", resp.StatusCode, body)
	}
	return err
}
