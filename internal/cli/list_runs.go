package cli

import (
	"context"
	"encoding/json"
	"net/url"

	"github.com/millrace/millrace/internal/apiclient"
	"github.com/millrace/millrace/internal/rollout"
)

// allRuns reads the list of runs page by page. body is the document of all of them.
func allRuns(ctx context.Context, c *apiclient.Client, active bool) (runs []rollout.RunStatus, body []byte, err error) {
	type list struct {
		Runs []rollout.RunStatus `json:"runs"`
		Next rollout.RunName     `json:"next"`
	}
	query := url.Values{}
	if active {
		query.Set("active", "true")
	}
	pages := 1
	for ; ; pages++ {
		path := "/v1/runs"
		if len(query) > 0 {
			path += "?" + query.Encode()
		}
		page, a, err := apiclient.Get[list](ctx, c, path)
		if err != nil {
			return nil, nil, err
		}
		runs, body = append(runs, page.Runs...), a.Body
		if page.Next == "" {
			break
		}
		query.Set("after", string(page.Next))
	}
	if pages > 1 {
		body, err = json.Marshal(map[string]any{"runs": runs})
	}
	return runs, body, err
}
