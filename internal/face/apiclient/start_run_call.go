package apiclient

import (
	"context"
	"net/http"
	"net/url"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// RunPath is where the API has a run.
func RunPath(run rollout.RunName) string { return "/v1/runs/" + url.PathEscape(string(run)) }

// StartRun starts a run, or finds that it was started before.
func (c *Client) StartRun(ctx context.Context, spec runspec.Spec) error {
	_, _, err := Send[runstatus.RunStatus](ctx, c, http.MethodPost, "/v1/runs", spec)
	return err
}
