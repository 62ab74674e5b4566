package api

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace/millrace/internal/kit/cache"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// notReady answers 204, with what is known about why.
func (s *Server) notReady(ctx context.Context, run rollout.RunName, reason string) func(huma.Context) {
	return func(hc huma.Context) {
		hc.SetHeader("Retry-After", strconv.Itoa(retryAfterSec))
		hc.SetHeader("X-Millrace-Reason", headerText(reason))
		f, err := s.figures.Of(ctx, run, cache.Younger[figures](figuresFor), s.readFigures(run))
		if err == nil { // It is 204 without them, too.
			counts, status := f.counts, f.status
			hc.SetHeader("X-Millrace-Ready", strconv.FormatInt(counts.Ready, 10))
			hc.SetHeader("X-Millrace-Pending", strconv.FormatInt(counts.Queued+counts.InFlight, 10))
			hc.SetHeader("X-Millrace-Needed", strconv.Itoa(needed(status, counts)))
			hc.SetHeader("X-Millrace-State", string(status.State))
		}
		hc.SetStatus(http.StatusNoContent)
	}
}

// figuresFor is how long the figures of an answer "not ready" are reused: thousands of ranks of a trainer may get the
// same ones.
const figuresFor = 250 * time.Millisecond

// figures are the figures of a run that a claim gets when its batch is not ready.
type figures struct {
	counts steprecord.BufferCounts
	status runstatus.RunStatus
}

func (s *Server) readFigures(run rollout.RunName) func(context.Context) (figures, error) {
	return func(ctx context.Context) (f figures, err error) {
		if f.counts, err = s.deps.Store.Counts(ctx, run); err == nil {
			f.status, err = s.deps.Store.Status(ctx, run)
		}
		return f, err
	}
}

// headerText keeps a text within one header line.
func headerText(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return ' '
		}
		return r
	}, text)
}
