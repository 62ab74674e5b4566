package turncost

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/internal/apiclient"
	"github.com/millrace/millrace/internal/rollout"
)

const (
	waitingRun  = rollout.RunName("waits")
	claimWait   = 60 * time.Second // of a claim, as long as a server lets it wait
	beforeWatch = 3 * time.Second
	askAgain    = 100 * time.Millisecond // after too many at a time
	waitingFor  = 20 * time.Second       // that the processes are watched
	openTimeout = time.Minute            // until all claims wait
)

// waiting is the processor time per second that each process uses while so many ranks of a trainer wait for a batch
// that does not come. Those whose claims come to an end claim again, as many in each second as ever.
func (s *site) waiting(ctx context.Context, ranks int) (map[string]float64, error) {
	spec := s.spec(waitingRun, phasesPerYear, 1)
	if err := s.store.Open(ctx, spec, ""); err != nil { // there are no games in it, and nobody plays any
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
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
				if err := s.claimInVain(ctx, client, rank, ranks, wait, &begun); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	idle, err := s.watchClaims(ctx, ranks, &begun, failed)
	cancel()
	claims.Wait()
	return idle, errors.Join(err, s.store.Delete(context.WithoutCancel(ctx), waitingRun))
}

func (s *site) watchClaims(ctx context.Context, ranks int, begun *atomic.Int64, failed chan error) (map[string]float64,
	error) {
	over := time.NewTimer(openTimeout)
	defer over.Stop()
	for begun.Load() < int64(ranks) {
		select {
		case err := <-failed:
			return nil, fmt.Errorf("a waiting claim: %w", err)
		case <-over.C:
			return nil, fmt.Errorf("%d of %d claims wait after %v", begun.Load(), ranks, openTimeout)
		case <-time.After(lookEvery):
		}
	}
	select {
	case err := <-failed:
		return nil, fmt.Errorf("a waiting claim: %w", err)
	case <-time.After(beforeWatch):
	}
	return s.watch(ctx, waitingFor)
}

// claimInVain claims a batch that does not come. It counts itself as soon as it is sent.
func (s *site) claimInVain(ctx context.Context, client *http.Client, rank, ranks int, wait time.Duration,
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
