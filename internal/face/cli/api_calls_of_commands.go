package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/face/apiclient"
	"github.com/millrace/millrace/internal/face/tablerow"
	"github.com/millrace/millrace/internal/game/gamelist"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// Client reads from one server what the commands show.
type Client struct{ *apiclient.Client }

// NewClient makes a client of the server at an address such as http://127.0.0.1:8700. An empty token sends none.
func NewClient(server, token string, h *http.Client) (Client, error) {
	c, err := apiclient.New(server, token, h)
	if err != nil {
		return Client{}, Usage("%v", err)
	}
	return Client{c}, nil
}

func (c Client) run(ctx context.Context, run rollout.RunName) (tablerow.Run, apiclient.Answer, error) {
	return apiclient.Get[tablerow.Run](ctx, c.Client, apiclient.RunPath(run))
}

// start posts a spec as it was written; the server reads it.
func (c Client) start(ctx context.Context, spec []byte) (runstatus.RunStatus, apiclient.Answer, error) {
	return apiclient.Read[runstatus.RunStatus](c.Call(ctx, http.MethodPost, "/v1/runs", "application/yaml", spec))
}

// runs reads the list of runs. document is all of it, as the server wrote it.
func (c Client) runs(ctx context.Context, active bool) (runs []runstatus.RunStatus, document []byte, err error) {
	type list struct {
		Runs []json.RawMessage `json:"runs"`
		Next string            `json:"next"`
	}
	query := url.Values{}
	if active {
		query.Set("active", "true")
	}
	all := []json.RawMessage{}
	for page, err := range apiclient.Pages(ctx, c.Client, "/v1/runs", query, "after",
		func(l list) string { return l.Next }) {
		if err != nil {
			return nil, nil, err
		}
		all = append(all, page.Runs...)
	}
	if document, err = json.Marshal(all); err != nil {
		return nil, nil, fmt.Errorf("read the server's answer: %w", err)
	}
	if err := json.Unmarshal(document, &runs); err != nil {
		return nil, nil, fmt.Errorf("read the server's answer: %w", err)
	}
	return runs, fmt.Appendf(nil, `{"runs":%s}`, document), nil
}

// stepsPage is how many records one call brings.
const stepsPage = 200

// stepPage is a page of step records, read as they are needed.
type stepPage[T any] struct {
	Steps []T           `json:"steps"`
	Next  *rollout.Step `json:"next"`
}

// recordedSteps reads the records from a step on.
func recordedSteps[T any](ctx context.Context, c Client, run rollout.RunName, from rollout.Step) ([]T, error) {
	query := url.Values{"from": {fmt.Sprint(from)}, "limit": {fmt.Sprint(stepsPage)}}
	all := []T{}
	for page, err := range apiclient.Pages(ctx, c.Client, apiclient.RunPath(run)+"/steps", query, "from",
		func(p stepPage[T]) string {
			if p.Next == nil {
				return ""
			}
			return fmt.Sprint(*p.Next)
		}) {
		if err != nil {
			return nil, err
		}
		all = append(all, page.Steps...)
	}
	return all, nil
}

func (c Client) steps(ctx context.Context, run rollout.RunName, from rollout.Step) ([]steprecord.StepRecord, error) {
	return recordedSteps[steprecord.StepRecord](ctx, c, run, from)
}

func (c Client) diagnosis(ctx context.Context, run rollout.RunName) (diagnosis.Report, apiclient.Answer, error) {
	return apiclient.Get[diagnosis.Report](ctx, c.Client, apiclient.RunPath(run)+"/diagnosis")
}

// change sends a run's change, such as a pause or a stop, and answers with what the run is afterwards.
func (c Client) change(ctx context.Context, run rollout.RunName, method, below string, body any) (runstatus.RunStatus,
	apiclient.Answer, error) {
	return apiclient.Send[runstatus.RunStatus](ctx, c.Client, method, apiclient.RunPath(run)+below, body)
}

// setQuery sets what is not empty.
func setQuery(q url.Values, values map[string]string) {
	for name, value := range values {
		if value != "" {
			q.Set(name, value)
		}
	}
}

// Turns lists the turns of a game, also as the server wrote them.
func (c Client) Turns(ctx context.Context, ref rollout.EpisodeRef) (gamelist.Turns, apiclient.Answer, error) {
	return apiclient.Get[gamelist.Turns](ctx, c.Client, apiclient.GamePath(ref)+"/turns")
}

// Turn is one turn of a game, also as the server wrote it.
func (c Client) Turn(ctx context.Context, ref rollout.EpisodeRef, n int) (gamelist.Turn, apiclient.Answer, error) {
	return apiclient.Get[gamelist.Turn](ctx, c.Client, fmt.Sprintf("%s/turns/%d", apiclient.GamePath(ref), n))
}
