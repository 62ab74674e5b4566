package server

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/millrace/millrace/config"
	"github.com/millrace/millrace/internal/api"
	"github.com/millrace/millrace/internal/connections"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/telemetry/store"
	"github.com/millrace/millrace/internal/web"
	"github.com/millrace/millrace/internal/web/runhistory"
	"github.com/millrace/millrace/workflows"
)

// newPage puts the operator's page in front of the API.
func newPage(cfg config.Service, b *connections.Set, server *api.Server, log *slog.Logger) (*web.Site, error) {
	deps := web.Deps{
		Workflows: workflows.WebUI{Address: cfg.Temporal.UIURL, Namespace: cfg.Temporal.Namespace,
			Deployment: workflows.Deployment(cfg.Temporal.TaskQueuePrefix)},
		API: server, Handler: server.Handler(), Log: log, Now: time.Now,
		History: runhistory.New(historySource{b}, log, time.Now),
		Sample:  func(ctx context.Context) (map[string]string, error) { return sampleTopics(ctx, b) },
	}
	page, err := web.New(deps)
	if err == nil {
		server.Front(func(http.Handler) http.Handler { return page })
	}
	return page, err
}

// historySource reads what the page's charts are drawn from.
type historySource struct{ b *connections.Set }

func (h historySource) AllSteps(ctx context.Context, run rollout.RunName, from rollout.Step,
	limit int) ([]rollout.StepRecord, error) {
	return h.b.Buffer.AllSteps(ctx, run, from, limit)
}

func (h historySource) Facts(ctx context.Context, run rollout.RunName, after string, limit int,
	kinds ...string) ([]runhistory.Fact, error) {
	records, err := h.b.Events.Facts(ctx, run, after, limit, kinds...)
	facts := make([]runhistory.Fact, len(records))
	for i, r := range records {
		facts[i] = factOf(r)
	}
	return facts, err
}

func (h historySource) Samples(ctx context.Context, run rollout.RunName, after string, limit int,
	kinds ...string) (found []runhistory.Fact, next string, more bool, err error) {
	records, next, more, err := h.b.Events.Samples(ctx, run, after, limit, kinds...)
	for _, r := range records {
		found = append(found, factOf(r))
	}
	return found, next, more, err
}

// factOf leaves out what another version wrote and this one cannot read.
func factOf(r store.Record) runhistory.Fact {
	event, err := r.Event()
	if err != nil {
		return runhistory.Fact{ID: r.ID}
	}
	return runhistory.Fact{ID: r.ID, Event: event}
}

// sampleTopics is what browsers may follow, each with a text that changes with it.
func sampleTopics(ctx context.Context, b *connections.Set) (map[string]string, error) {
	runs, err := b.Buffer.Active(ctx)
	if err != nil {
		return nil, err
	}
	engines, err := b.Registry.List(ctx)
	if err != nil {
		return nil, err
	}
	topics, all := map[string]string{}, ""
	for _, status := range runs {
		name := status.Spec.Name
		counts, err := b.Buffer.Counts(ctx, name)
		if err != nil && !rollout.Refused(err, rollout.NoSuchRun) {
			return nil, err
		}
		text := fmt.Sprint(name, status.State, status.NextStep, status.PolicyVersion, counts)
		topics["run "+string(name.Plain())] = text
		all += text
	}
	for _, e := range engines {
		text := fmt.Sprint(e.ID, e.State, e.Reason, e.Load)
		topics["engine "+string(e.ID)] = text
		all += text
	}
	scaled, _, err := b.Registry.Scaling(ctx)
	if err != nil {
		return nil, err
	}
	topics["fleet"] = fmt.Sprint(scaled.Wanted, scaled.Actual, scaled.Why, scaled.Set, scaled.Trouble, scaled.Engines,
		len(scaled.Measured))
	topics["overview"] = all + topics["fleet"]
	return topics, nil
}
