package api

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace/millrace/internal/kit/cache"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/store/buffer"
)

// CompactBatch is the media type of the compact encoding of a batch.
const CompactBatch = "application/x-millrace-batch"

// claimInput is a claim. Generation, rank and world may come as query parameters or in the body.
type claimInput struct {
	StepPath
	Wait       string                    `query:"wait" doc:"How long to wait for the batch: 30s, or seconds; the server may wait for less"`
	Generation rollout.TrainerGeneration `query:"generation" minimum:"0" doc:"As answered to POST /v1/runs/{run}/trainer; may be left out as long as no trainer process has announced itself"`
	Rank       int                       `query:"rank" minimum:"0" doc:"Which share of the batch, with world"`
	World      int                       `query:"world" minimum:"0" maximum:"65536" doc:"How many disjoint shares the batch is cut into; 0 or 1 is all of it"`
	Accept     string                    `header:"Accept"`
	Coding     string                    `header:"Accept-Encoding"`
	Body       *struct {
		Generation rollout.TrainerGeneration `json:"generation,omitempty" minimum:"0"`
		Rank       int                       `json:"rank,omitempty" minimum:"0"`
		World      int                       `json:"world,omitempty" minimum:"0" maximum:"65536"`
	}
}

func (s *Server) registerClaim() {
	claim := s.operation("claim-step")
	batch := &huma.Response{Description: "The batch", Content: map[string]*huma.MediaType{
		"application/json": {Schema: schemaOf[batchSchema](s)},
		CompactBatch:       {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}},
	}}
	claim.Responses["200"] = batch
	claim.Responses["204"] = &huma.Response{Description: "Not ready; claim again after Retry-After seconds",
		Headers: map[string]*huma.Param{
			"Retry-After":        {Schema: &huma.Schema{Type: huma.TypeInteger}},
			"X-Millrace-Reason":  {Description: "What is missing", Schema: &huma.Schema{Type: huma.TypeString}},
			"X-Millrace-State":   {Description: "The run's state", Schema: &huma.Schema{Type: huma.TypeString}},
			"X-Millrace-Ready":   {Description: "Groups ready", Schema: &huma.Schema{Type: huma.TypeInteger}},
			"X-Millrace-Pending": {Description: "Groups queued or in flight", Schema: &huma.Schema{Type: huma.TypeInteger}},
			"X-Millrace-Needed": {Description: "Ready groups that the next batch needs",
				Schema: &huma.Schema{Type: huma.TypeInteger}},
		}}
	huma.Register(s.api, claim, s.claim)

	show := s.operation("show-batch")
	show.Responses["200"] = batch
	huma.Register(s.api, show, s.showBatch)
}

// showBatch has a gate of its own, so that readers take no place of a trainer's.
func (s *Server) showBatch(ctx context.Context, in *struct {
	StepPath
	Accept string `header:"Accept"`
	Coding string `header:"Accept-Encoding"`
}) (*claimOutput, error) {
	done, refused := s.gates.enter(ctx, "readings", in.Run)
	if refused != nil {
		return nil, refused
	}
	batch, err := s.deps.Store.Batch(ctx, in.Run, in.Step)
	if err != nil {
		done()
		return nil, s.fail(ctx, "read batch", err)
	}
	return &claimOutput{func(hc huma.Context) {
		defer done()
		s.writeBatch(hc, batch, in.Accept, in.Coding)
	}}, nil
}

// ask is a claim, understood.
type ask struct {
	run        rollout.RunName
	step       rollout.Step
	generation rollout.TrainerGeneration
	share      buffer.Share
	wait       time.Duration
}

func (in *claimInput) ask(maxWait time.Duration) (ask, error) {
	a := ask{run: in.Run, step: in.Step, generation: in.Generation, share: buffer.Share{Rank: in.Rank, World: in.World}}
	if in.Body != nil {
		if a.generation == 0 {
			a.generation = in.Body.Generation
		}
		if a.share == (buffer.Share{}) {
			a.share = buffer.Share{Rank: in.Body.Rank, World: in.Body.World}
		}
	}
	if a.share.Rank >= max(a.share.World, 1) {
		return a, problem(rollout.Invalid, fmt.Sprintf("rank %d of world %d: ranks count from 0 to world-1",
			a.share.Rank, a.share.World))
	}
	wait, err := parseWait(in.Wait)
	if err != nil {
		return a, err
	}
	a.wait = min(wait, maxWait)
	return a, nil
}

// parseWait reads "30s" or "30".
func parseWait(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	if sec, err := strconv.ParseFloat(text, 64); err == nil && sec >= 0 && sec < 1e6 {
		return time.Duration(sec * float64(time.Second)), nil
	}
	wait, err := time.ParseDuration(text)
	if err != nil || wait < 0 {
		return 0, problem(rollout.Invalid, fmt.Sprintf("wait=%q: a duration such as 30s, or seconds", text))
	}
	return wait, nil
}

type claimOutput struct{ Body func(huma.Context) }

func (s *Server) claim(ctx context.Context, in *claimInput) (*claimOutput, error) {
	a, err := in.ask(s.bounds().MaxWait)
	if err != nil {
		return nil, err
	}
	s.acquaint(ctx, a.run)
	batch, done, err := s.await(ctx, a)
	if rollout.Refused(err, rollout.NotReady) {
		return &claimOutput{s.notReady(ctx, a.run, err.Error())}, nil
	}
	if err != nil {
		return nil, s.fail(ctx, "claim batch", err)
	}
	told := s.witness(ctx, a.run)
	if !told && (batch.Granted || a.share.Rank == 0) { // A repeated claim repeats the hint: it may have been lost.
		s.hint(a.run)
	}
	return &claimOutput{func(hc huma.Context) {
		defer done()
		s.writeBatch(hc, batch, in.Accept, in.Coding)
	}}, nil
}

// Pauses between two looks at the store. Only the first of the claims that wait for one step looks so often; it wakes
// the others. While the server hears of changes, it looks when there is one, and now and then so that the store knows
// that its trainer waits. While it does not, it looks again and again: soon at first, for a batch that is about to be
// complete; the longest pause is then how late a batch may be noticed. A look is one small script in Redis.
const (
	firstPause  = 20 * time.Millisecond // and at least so much after the look before
	maxPause    = 100 * time.Millisecond
	behindPause = 5 * time.Second
	heardPause  = 5 * time.Second // well below what a trainer may be silent for and still be waiting
)

// rest is how long a poll waits if nothing wakes it; forever is the longest wait allowed.
func (s *Server) rest(poll *waiter, pause, forever time.Duration) time.Duration {
	first := s.waiters.first(poll)
	switch {
	case s.hears.Load() && first:
		return heardPause
	case s.hears.Load():
		return forever
	case first:
		return pause
	}
	return behindPause
}

// await claims until there is an answer other than "not ready", the wait is over, the client has gone or the server
// stops. done must be called when a batch is delivered: until then it has one of the places of batches that are in
// memory.
func (s *Server) await(ctx context.Context, a ask) (batch *buffer.RawBatch, done func(), err error) {
	now := s.deps.Now()
	poll := &waiter{run: a.run, step: a.step, generation: a.generation, since: now, deadline: now.Add(a.wait)}
	over := time.NewTimer(a.wait)
	defer over.Stop()
	listed, joined := false, false
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		looked := s.deps.Now()
		batch, done, err := s.look(ctx, a)
		if !rollout.Refused(err, rollout.NotReady) || a.wait <= 0 {
			if err == nil {
				s.waiters.wakeStep(a.run, a.step)
			}
			return batch, done, err
		}
		if !listed { // A batch that is ready costs no entry in the list.
			leave, refused := s.gates.enter(ctx, "waiting", a.run)
			if refused != nil {
				return nil, nil, refused
			}
			defer leave()
			s.waiters.add(poll)
			defer s.waiters.remove(poll)
			listed, joined = true, true
		}
		s.waiters.note(poll, strings.TrimSuffix(err.Error(), "; ask again"))
		rest := s.rest(poll, pause, a.wait)
		if joined && s.waiters.first(poll) { // a change between its look and its entry in the list woke no poll
			rest = firstPause
		}
		joined = false
		// Jitter spreads the looks of a trainer's ranks, which ask at the same time.
		look := time.NewTimer(rest + rand.N(rest/4))
		select {
		case <-look.C:
		case <-poll.wake:
			if s.hears.Load() { // changes come in swarms
				time.Sleep(firstPause - s.deps.Now().Sub(looked))
			}
		case <-over.C:
			return nil, nil, err
		case <-s.stopping:
			return nil, nil, err
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
		look.Stop()
	}
}

// look claims once.
func (s *Server) look(ctx context.Context, a ask) (*buffer.RawBatch, func(), error) {
	done, refused := s.gates.enter(ctx, "batches", a.run)
	if refused != nil {
		return nil, nil, refused
	}
	batch, err := s.deps.Store.ClaimRaw(ctx, a.run, a.step, a.generation, a.share)
	if err != nil {
		done()
		return nil, nil, s.missed(ctx, a.run, err)
	}
	return batch, done, nil
}

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

// writeBatch streams the batch group by group, so that it is never in memory as a whole. Once the first byte is out
// an error can only cut the answer short, which every client notices: JSON that does not close, a compact batch
// that is too short.
func (s *Server) writeBatch(hc huma.Context, batch *buffer.RawBatch, accept, coding string) {
	media := "application/json"
	if strings.Contains(accept, CompactBatch) {
		media = CompactBatch
	}
	hc.SetHeader("Content-Type", media)
	hc.SetHeader("Vary", "Accept, Accept-Encoding")
	var out io.Writer = hc.BodyWriter()
	var zip *gzip.Writer
	if media != CompactBatch && acceptsGzip(coding) { // The compact encoding is compressed already.
		hc.SetHeader("Content-Encoding", "gzip")
		zip = newGzip(out)
		out = zip
	}
	hc.SetStatus(http.StatusOK)
	var err error
	if media == CompactBatch {
		err = batch.WriteCompact(out)
	} else {
		err = writeBatchJSON(out, batch)
	}
	if err == nil && zip != nil {
		err = zip.Close()
	}
	if err != nil {
		s.deps.Log.Info("batch not delivered; it may be asked for again", "request_id", requestID(hc.Context()),
			"run", batch.Run, "step", batch.Step, "error", err)
		panic(http.ErrAbortHandler) // Cuts the connection, so that the client cannot take a part for the whole.
	}
}

func newGzip(w io.Writer) *gzip.Writer {
	zip, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err != nil {
		panic(err) // BestSpeed is a valid level.
	}
	return zip
}

// acceptsGzip reports whether an Accept-Encoding header names gzip, and not with q=0.
func acceptsGzip(header string) bool {
	for part := range strings.SplitSeq(header, ",") {
		coding, params, _ := strings.Cut(part, ";")
		if strings.TrimSpace(coding) != "gzip" {
			continue
		}
		q, isQ := strings.CutPrefix(strings.TrimSpace(params), "q=")
		weight, err := strconv.ParseFloat(q, 64)
		return !isQ || err == nil && weight > 0
	}
	return false
}
