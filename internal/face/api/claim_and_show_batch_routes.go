package api

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/store/buffer"
)

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
		"application/json": {Schema: schemaOf[Batch](s)},
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
		a.generation = cmp.Or(a.generation, in.Body.Generation)
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
