package noisyneighbours

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/face/apiclient"
	"github.com/millrace/millrace/internal/kit/retry"
	"github.com/millrace/millrace/internal/store/buffer"
)

// measurement is what was seen of the healthy run for a while.
type measurement struct {
	steps    []float64 // seconds; the last one is the step in progress at the end if it took longer than the others
	whole    float64   // seconds
	done     float64   // steps in that time
	claims   []float64 // seconds until a claim of the batch granted last was answered with it
	newGroup float64   // seconds until a group launched after the beginning was finished; -1: never
	dropped  int64     // groups
	peaks    map[string]int64
	ended    []string // processes that ended by themselves
}

// mean is the time per step: unlike a median, it hides no standstill.
func (m measurement) mean() float64 { return m.whole / max(m.done, 0.5) }

// forgive takes out of the time what the longest step took more than an undisturbed one, up to d.
func (m *measurement) forgive(d time.Duration, undisturbed float64) {
	if more := m.longest() - undisturbed; more > 0 {
		m.whole -= min(d.Seconds(), more)
	}
}

func (m measurement) longest() float64 {
	if len(m.steps) == 0 {
		return m.whole
	}
	return slices.Max(m.steps)
}

// claim is a quantile, by nearest rank.
func (m measurement) claim(q float64) float64 {
	if len(m.claims) == 0 {
		return m.whole // none was answered
	}
	sorted := slices.Sorted(slices.Values(m.claims))
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

const (
	lookEvery  = 50 * time.Millisecond
	claimEvery = 100 * time.Millisecond
	// claimTimeout bounds one try of a claim; the claim's latency counts all tries.
	claimTimeout = 10 * time.Second
)

// measure watches the healthy run for at least so many steps and so long, and no longer than most.
func (s *site) measure(ctx context.Context, steps int, least, most time.Duration) (measurement, error) {
	m := measurement{newGroup: -1, peaks: map[string]int64{}}
	before := map[string]int{}
	for _, name := range append(s.processes(), trainer) {
		before[name] = s.Ends(name)
		forgetPeak(s.PID(name))
	}
	first, err := s.account(ctx)
	if err != nil {
		return m, err
	}
	probing, stop := context.WithCancel(ctx)
	var prober sync.WaitGroup
	prober.Go(func() { m.claims = s.claims(probing) })
	began := time.Now()
	last, recorded := began, s.recorded()
	for {
		if err := retry.Pause(ctx, lookEvery); err != nil {
			stop()
			prober.Wait()
			return m, err
		}
		now := time.Now()
		if n := s.recorded(); n > recorded {
			each := now.Sub(last).Seconds() / float64(n-recorded)
			for range n - recorded {
				m.steps = append(m.steps, each)
			}
			last, recorded = now, n
		}
		account, err := s.account(ctx)
		if err == nil {
			m.dropped = account.Counts.Dropped - first.Counts.Dropped
		}
		if err == nil && m.newGroup < 0 && finished(account) > finished(first)+unfinished(first) {
			m.newGroup = now.Sub(began).Seconds()
		}
		for _, name := range s.processes() {
			m.peaks[name] = max(m.peaks[name], peak(s.PID(name)))
		}
		past := now.Sub(began)
		if past >= most || past >= least && len(m.steps) >= steps {
			break
		}
	}
	stop()
	prober.Wait()
	m.whole = time.Since(began).Seconds()
	m.done = float64(len(m.steps))
	if open := time.Since(last).Seconds(); len(m.steps) > 0 {
		// Of the step in progress as much as would be done of one as long as the others.
		m.done += min(open/(m.whole-open)*m.done, 1)
		if open > m.longest() {
			m.steps = append(m.steps, open)
		}
	}
	for name, n := range before {
		if more := s.Ends(name) - n; more > 0 {
			m.ended = append(m.ended, fmt.Sprintf("%s ended %d times", name, more))
		}
	}
	slices.Sort(m.ended)
	return m, nil
}

func finished(a buffer.Account) int64 { return a.Counts.Ready + a.Counts.Claimed + a.Counts.Completed }

func unfinished(a buffer.Account) int64 { return a.Counts.Queued + a.Counts.InFlight }

func (s *site) account(ctx context.Context) (buffer.Account, error) {
	return s.store.Account(ctx, healthy)
}

// recorded is how many steps the trainer has written into its journal, which it does just before it records them.
func (s *site) recorded() int {
	b, err := os.ReadFile(s.journal)
	if err != nil {
		return 0 // nothing is written yet
	}
	return bytes.Count(b, []byte("\n"))
}

// claims claims the batch granted last again and again, as a rank does that asks later than others.
func (s *site) claims(ctx context.Context) (seconds []float64) {
	for retry.Pause(ctx, claimEvery) == nil {
		began := time.Now()
		for ctx.Err() == nil {
			if s.claimLast(ctx) == nil {
				break
			}
			_ = retry.Pause(ctx, lookEvery)
		}
		seconds = append(seconds, time.Since(began).Seconds()) // cut short at the end, it took at least as long
	}
	return seconds
}

func (s *site) claimLast(ctx context.Context) error {
	account, err := s.account(ctx)
	if err != nil {
		return err
	}
	if account.ClaimedTo == 0 {
		return fmt.Errorf("nothing is granted yet")
	}
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	path := fmt.Sprintf("/v1/runs/%s/steps/%d/claim?generation=%d", healthy, account.ClaimedTo-1, account.Generation)
	a, err := s.call(ctx, http.MethodPost, path, nil)
	if err == nil && a.Status != http.StatusOK {
		err = refusal(a)
	}
	return err
}

// refusal is an answer that was not hoped for as an error, in the server's words.
func refusal(a apiclient.Answer) error {
	if said := a.Refusal(); said != nil {
		return fmt.Errorf("%d %w", a.Status, said)
	}
	return fmt.Errorf("%d", a.Status)
}
