package server

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/millrace/millrace/config"
	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/face/web"
	"github.com/millrace/millrace/internal/face/web/runhistory"
	"github.com/millrace/millrace/internal/kit/panics"
	"github.com/millrace/millrace/internal/process/connections"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/store/browsersession"
	"github.com/millrace/millrace/internal/store/buffer"
	"github.com/millrace/millrace/internal/store/eventstore"
	"github.com/millrace/millrace/workflows"
)

// newPage puts the operator's page in front of the API.
func newPage(cfg config.Service, b *connections.Set, server *api.Server, survived panics.Watch) (*web.Site, error) {
	log, history := survived.Log, runhistory.New(historySource{b.Buffer, b.Events}, survived.Log, time.Now)
	history.Panics = survived
	deps := web.Deps{
		Workflows: workflows.WebUI{Address: cfg.Temporal.UIURL, Namespace: cfg.Temporal.Namespace,
			Deployment: workflows.Deployment(cfg.Temporal.TaskQueuePrefix)},
		API: server, Handler: server.Handler(),
		Sessions: browsersession.Store{Redis: b.Redis, Prefix: cfg.Redis.Prefix}, Panics: survived, Log: log, Now: time.Now,
		History: history,
		Sample:  func(ctx context.Context) (map[string]string, error) { return sampleTopics(ctx, b) },
	}
	page, err := web.New(deps)
	if err == nil {
		server.Front(func(http.Handler) http.Handler { return page })
	}
	return page, err
}

// historySource reads what the page's charts are drawn from.
type historySource struct {
	*buffer.Store
	events *store.Store
}

func (h historySource) Facts(ctx context.Context, run rollout.RunName, after string, limit int,
	kinds ...string) ([]store.Record, error) {
	return h.events.Facts(ctx, run, after, limit, kinds...)
}

func (h historySource) Samples(ctx context.Context, run rollout.RunName, after string, limit int,
	kinds ...string) (found []store.Record, next string, more bool, err error) {
	return h.events.Samples(ctx, run, after, limit, kinds...)
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
