package cli

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/millrace/millrace/internal/apiclient"
	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/telemetry"
)

// Client reads from one server what the commands show.
type Client struct{ *apiclient.Client }

// NewClient makes a client of the server at an address such as http://127.0.0.1:8700. An empty token sends none.
func NewClient(server, token string, h *http.Client) (Client, error) {
	c, err := apiclient.New(server, token, h)
	if err != nil {
		return Client{}, usage("%v", err)
	}
	return Client{c}, nil
}

// runView is a run with what the buffer and the engines say of it now.
type runView struct {
	rollout.RunStatus
	Buffer     rollout.BufferCounts  `json:"buffer"`
	ReadyDepth float64               `json:"ready_depth"`
	Fleet      *rollout.FleetView    `json:"fleet"`
	Departures []rollout.LengthCount `json:"departures"`
	Attempts   rollout.AttemptCounts `json:"tries"`
	Alarms     []rollout.Alarm       `json:"alarms"`
	Waits      []wait                `json:"waits"`

	Sinks []telemetry.SinkStatus `json:"sinks"`
}

// wait is something that waits, with its owner.
type wait struct {
	What     string    `json:"what"`
	Owner    string    `json:"owner"`
	Since    time.Time `json:"since"`
	Deadline time.Time `json:"deadline"`
	Detail   string    `json:"detail"`
}

func (c Client) run(ctx context.Context, run rollout.RunName) (runView, apiclient.Answer, error) {
	return apiclient.Get[runView](ctx, c.Client, apiclient.RunPath(run))
}

// start posts a spec as it was written; the server reads it.
func (c Client) start(ctx context.Context, spec []byte) (rollout.RunStatus, apiclient.Answer, error) {
	return apiclient.Read[rollout.RunStatus](c.Call(ctx, http.MethodPost, "/v1/runs", "application/yaml", spec))
}

// stepsPage is how many records one call brings.
const stepsPage = 200

// steps reads the records from a step on, page by page.
func (c Client) steps(ctx context.Context, run rollout.RunName, from rollout.Step) ([]rollout.StepRecord, error) {
	type page struct {
		Steps []rollout.StepRecord `json:"steps"`
		Next  *rollout.Step        `json:"next"`
	}
	all := []rollout.StepRecord{}
	for {
		path := fmt.Sprintf("%s/steps?from=%d&limit=%d", apiclient.RunPath(run), from, stepsPage)
		p, _, err := apiclient.Get[page](ctx, c.Client, path)
		if err != nil {
			return nil, err
		}
		all = append(all, p.Steps...)
		if p.Next == nil {
			return all, nil
		}
		from = *p.Next
	}
}

func (c Client) diagnosis(ctx context.Context, run rollout.RunName) (diagnosis.Report, apiclient.Answer, error) {
	return apiclient.Get[diagnosis.Report](ctx, c.Client, apiclient.RunPath(run)+"/diagnosis")
}
