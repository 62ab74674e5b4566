package server

import (
	"net/http"

	"github.com/millrace/millrace/config"
	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/face/web"
	"github.com/millrace/millrace/internal/face/web/runhistory"
	"github.com/millrace/millrace/internal/kit/panics"
	"github.com/millrace/millrace/internal/process/connections"
	"github.com/millrace/millrace/internal/store/browsersession"
	"github.com/millrace/millrace/workflows"
)

// putPageInFront has the operator's page answer before the API.
func putPageInFront(cfg config.Service, b *connections.Set, server *api.Server, survived panics.Watch) error {
	page, err := web.New(web.Deps{
		API: server, Handler: server.Handler(), Panics: survived, Log: survived.Log,
		Workflows: workflows.WebUI{Address: cfg.Temporal.UIURL, Namespace: cfg.Temporal.Namespace,
			Deployment: workflows.Deployment(cfg.Temporal.TaskQueuePrefix)},
		Sessions: browsersession.Store{Redis: b.Redis, Prefix: cfg.Redis.Prefix},
		History:  runhistory.New(b.Buffer, b.Events, survived),
	})
	if err == nil {
		server.Front(func(http.Handler) http.Handler { return page })
	}
	return err
}
