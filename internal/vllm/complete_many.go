package vllm

import (
	"context"
	"errors"
	"fmt"

	"github.com/millrace/millrace/internal/rollout"
)

// Answer is what one request of a call with several prompts got: a completion fit to be trained on, or a failure.
type Answer struct {
	Completion rollout.Completion
	Err        error
}

// CompleteMany samples one completion for each request, in one call and in order. The requests must agree in model,
// sampling, stop texts and constraint, because a call has one of each. A call has one seed too: several requests are
// therefore sampled without theirs, because equal prompts would otherwise get equal answers. The longest of the
// requests' timeouts bounds the call. The error is of the call; a choice that is not fit to be trained on fails
// alone.
func (c *Client) CompleteMany(ctx context.Context, reqs []rollout.Request) ([]Answer, error) {
	if err := checkMany(reqs); err != nil {
		return nil, badRequest(err)
	}
	said, err := c.complete(ctx, reqs)
	if err != nil {
		return nil, err
	}
	return verify(reqs, said)
}

func checkMany(reqs []rollout.Request) error {
	if len(reqs) == 0 {
		return errors.New("no requests")
	}
	first := &reqs[0]
	for i := range reqs {
		if err := check(&reqs[i]); err != nil {
			return fmt.Errorf("request %d of %d: %w", i+1, len(reqs), err)
		}
		if !first.SharesCall(&reqs[i]) {
			return fmt.Errorf("request %d of %d: not the same model, sampling, stop texts and constraint as the "+
				"first", i+1, len(reqs))
		}
	}
	return nil
}
