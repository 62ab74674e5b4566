package web

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"net/http"
	"time"

	"github.com/millrace/millrace/internal/face/access"
	"github.com/millrace/millrace/internal/face/web/pageview"
	"github.com/millrace/millrace/internal/face/web/runhistory"
	"github.com/millrace/millrace/internal/kit/cache"
	"github.com/millrace/millrace/internal/kit/panics"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// API is the service that the page shows.
type API interface {
	// Grant is what the holder of a token may do; refusal says why nobody is known by it.
	Grant(token access.Hash) (grant access.Grant, refusal string)
	// LatestDiagnosis is the diagnosis of a run that is there when patience ends; nil: the first is being made, or err
	// says why there is none.
	LatestDiagnosis(ctx context.Context, status runstatus.RunStatus, patience time.Duration) (any, error)
}

// Sessions is which browsers are logged in, for all servers.
type Sessions interface {
	// Begin begins a session with a token, which ends by itself after its age.
	Begin(ctx context.Context, token [sha256.Size]byte, age time.Duration) (id string, err error)
	// Token is the token that a session was begun with; false: there is no such session.
	Token(ctx context.Context, id string) (token [sha256.Size]byte, found bool, err error)
	End(ctx context.Context, id string) error
}

// Workflows is addresses of workflows in Temporal's UI; empty where it is not known.
type Workflows interface {
	Run(run rollout.RunName) string
	Group(ref rollout.GroupRef) string
	Fleet() string
}

// Deps is what the page stands on.
type Deps struct {
	API API
	// Deployment is the name of what the pages show; empty: it has none.
	Deployment string
	// Handler answers the API's routes, and all that is no page.
	Handler   http.Handler
	Sessions  Sessions
	History   *runhistory.History
	Workflows Workflows
	Panics    panics.Watch
	Log       *slog.Logger
}

// Site is the pages.
type Site struct {
	deps  Deps
	pages templates
	kept  *cache.Cache[string, made]
	known *knownSessions
	gate  chan struct{} // how many pages are made at a time
	mux   *http.ServeMux
}

// pagesAtOnce bounds the pages that are being made: a page takes processor time that claims need.
const pagesAtOnce = 4

// New makes the pages.
func New(deps Deps) (*Site, error) {
	pages, err := readTemplates(deps.Deployment)
	if err != nil {
		return nil, err
	}
	s := &Site{deps: deps, pages: pages, kept: newPageCache(deps.Panics), known: newKnownSessions(deps.Sessions),
		gate: make(chan struct{}, pagesAtOnce), mux: http.NewServeMux()}
	s.route()
	return s, nil
}

// ServeHTTP answers pages, and hands everything else to the API.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	err := s.deps.Panics.Catch("page", func() error {
		s.mux.ServeHTTP(w, r)
		return nil
	})
	if err != nil {
		_, text := statusOf(err)
		s.refuse(w, r, http.StatusInternalServerError, text)
	}
}

func (s *Site) route() {
	s.mux.Handle("/", s.deps.Handler)
	s.mux.HandleFunc("GET /static/{name}", s.static)
	s.mux.HandleFunc("GET /login", s.showLogin)
	s.mux.HandleFunc("POST /login", s.guarded(s.login))
	s.mux.HandleFunc("POST /logout", s.guarded(s.logout))
	s.mux.HandleFunc("GET /data/{path...}", s.data)
	s.page("/{$}", s.overview)
	s.page("/runs/{run}", s.run(pageview.OverviewTab))
	for _, tab := range pageview.RunTabs()[1:] {
		s.page("/runs/{run}/"+tab, s.run(tab))
	}
	s.page("/engines/{id}", s.engine)
	s.page("/fleet", s.fleet)
	s.page("/runs/{run}/steps/{step}", s.step)
	s.page("/runs/{run}/groups/{group}", s.group)
	s.page("/runs/{run}/games/{group}/{sample}", s.game)
	s.page("/runs/{run}/games/{group}/{sample}/turns/{turn}", s.turn)
	s.made("/runs/{run}/games/{group}/{sample}/map.svg", gameMap)
	s.routeActions()
}

// page has a page made of what show answers.
func (s *Site) page(pattern string, show func(context.Context, *visit) (content, error)) {
	s.made(pattern, func(ctx context.Context, v *visit) (made, error) {
		select {
		case s.gate <- struct{}{}:
		case <-ctx.Done():
			return made{}, ctx.Err()
		}
		defer func() { <-s.gate }()
		c, err := show(ctx, v)
		if err != nil {
			return made{}, err
		}
		return s.pages.make(v, c)
	})
}

// made has what is made for one visitor shown to all who may see the same.
func (s *Site) made(pattern string, show func(context.Context, *visit) (made, error)) {
	s.mux.HandleFunc("GET "+pattern, func(w http.ResponseWriter, r *http.Request) {
		v, ok := s.visit(w, r)
		if !ok {
			return
		}
		made, err := s.kept.Of(r.Context(), v.cacheKey(), fresh, func(ctx context.Context) (made, error) {
			return show(ctx, v)
		})
		if err != nil {
			s.sorry(w, v, err)
			return
		}
		write(w, r, http.StatusOK, made)
	})
}
