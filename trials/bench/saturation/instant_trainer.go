package saturation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/face/apiclient"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// claimTimeout is longer than any claim waits.
const claimTimeout = 90 * time.Second

// train takes batches as soon as they are there, and needs no time for them, until the context ends.
func (s *service) train(ctx context.Context, steps func()) error {
	client := &http.Client{Timeout: claimTimeout}
	defer client.CloseIdleConnections()
	for step := 0; ctx.Err() == nil; {
		switch claimed, err := s.claim(ctx, client, step); {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("claim step %d: %w", step, err)
		case !claimed:
			continue
		}
		report := steprecord.StepReport{WallSec: 1, Phases: map[steprecord.Phase]float64{steprecord.PhaseTrain: 1}}
		answer, err := s.api.Ask(ctx, http.MethodPut, fmt.Sprintf("%s/steps/%d", apiclient.RunPath(runName), step), report)
		if err == nil && answer.Status >= http.StatusBadRequest {
			err = answer.Refusal()
		}
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("record step %d: %w", step, err)
		}
		steps()
		step++
	}
	return nil
}

// claim asks for a batch in the form that trainers take, and reports whether it came.
func (s *service) claim(ctx context.Context, client *http.Client, step int) (bool, error) {
	url := fmt.Sprintf("http://%s%s/steps/%d/claim?wait=30s", s.Server, apiclient.RunPath(runName), step)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, http.NoBody)
	if err != nil {
		return false, err
	}
	req.Header.Set("Accept", api.CompactBatch)
	resp, err := client.Do(req)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
		_, err := io.Copy(io.Discard, resp.Body)
		return true, err
	case http.StatusNoContent:
		return false, nil
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	return false, errors.Join(err, fmt.Errorf("answered %d: %s", resp.StatusCode, text))
}
