package promptset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/millrace/millrace/internal/game/specurl"
	"github.com/millrace/millrace/internal/rollout"
)

// webhookPatience bounds one call of a webhook.
const webhookPatience = time.Minute

// verdict is what a webhook answers: one of the two.
type verdict struct {
	Reward *float64 `json:"reward"`
	Right  *bool    `json:"right"`
}

// ask has a webhook judge a game: it is sent the task, with the whole row, and the completion as "text". Nothing is
// kept until the phase is saved, so a worker's death has it asked again; the answer that is saved counts, and no other.
//
// Failures: CodeEnvironmentUnavailable (no connection, 408, 429, 5xx but 500), CodeEnvironmentHung (silent for
// webhookPatience), CodeEngineAddress (the configuration refuses the address), CodeResult (it gives no reward, and
// would not if asked again; or 500, which an attempt of its own may cure: it may be this text that breaks it).
func (p *played) ask(hook *specurl.Server) (v verdict, err error) {
	if hook == nil {
		return v, errors.New("prompts: a webhook is asked by workers alone")
	}
	ctx, cancel := context.WithTimeout(context.Background(), webhookPatience)
	defer cancel()
	resp, body, err := hook.Post(ctx, "", p)
	if err == nil {
		v, err = readVerdict(resp.StatusCode, body)
	}
	var known *rollout.Failure
	var unheard *specurl.Unheard
	kind, code := rollout.GameFault, rollout.CodeResult
	switch {
	case err == nil:
		return v, nil
	case errors.As(err, &known):
		return v, known
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		kind, code, err = rollout.Retryable, rollout.CodeEnvironmentHung, fmt.Errorf("no answer in %s", webhookPatience)
	case errors.Is(err, errBroke):
		kind = rollout.Retryable
	case errors.As(err, &unheard), errors.Is(err, errLater):
		kind, code = rollout.Retryable, rollout.CodeEnvironmentUnavailable
	}
	return v, rollout.Fail(kind, code, fmt.Errorf("webhook %s: %w", hook.URL, err))
}

// errLater is an answer that may be another one later; errBroke, one that may always be the same for this text.
var (
	errLater = errors.New("the game waits")
	errBroke = errors.New("it fails over what it is sent")
)

// readVerdict reads a webhook's answer. The body of one that is none is not quoted: who may name a URL would read by it
// what others serve.
func readVerdict(status int, body []byte) (v verdict, err error) {
	switch {
	case status == http.StatusInternalServerError:
		return v, fmt.Errorf("status %d: %w", status, errBroke)
	case specurl.Waits(status):
		return v, fmt.Errorf("status %d: %w", status, errLater)
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return v, fmt.Errorf("status %d: its key is that of a line, its URL and the key, in engine_urls.keys_file of the "+
			"workers", status)
	case status != http.StatusOK:
		return v, fmt.Errorf("status %d", status)
	case json.Unmarshal(body, &v) != nil || (v.Reward == nil) == (v.Right == nil):
		return v, errors.New(`status 200, and neither {"reward": 0.5} nor {"right": true}`)
	}
	return v, nil
}
