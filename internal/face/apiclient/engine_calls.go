package apiclient

import (
	"context"
	"net/http"
	"net/url"

	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// EnginePath is where the API has an engine.
func EnginePath(id string) string { return "/v1/engines/" + url.PathEscape(id) }

// Engines is the fleet, also as the server wrote it.
func (c *Client) Engines(ctx context.Context) ([]enginestate.Engine, Answer, error) {
	type list struct {
		Engines []enginestate.Engine `json:"engines"`
	}
	l, a, err := Get[list](ctx, c, "/v1/engines")
	return l.Engines, a, err
}

// AddEngine makes an engine a member of the fleet, or finds that it is one.
func (c *Client) AddEngine(ctx context.Context, id, address string, maxInFlight int) (enginestate.Engine, Answer,
	error) {
	body := struct {
		URL         string `json:"url"`
		MaxInFlight int    `json:"max_in_flight,omitempty"`
	}{address, maxInFlight}
	return Send[enginestate.Engine](ctx, c, http.MethodPut, EnginePath(id), body)
}
