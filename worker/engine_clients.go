package worker

import (
	"context"
	"sync"
	"time"

	engineaddress "github.com/millrace/millrace/internal/engine/address"
	"github.com/millrace/millrace/internal/engine/dispatch/live"
	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/engine/vllm"
	"github.com/millrace/millrace/internal/observe/otel"
	"github.com/millrace/millrace/internal/process/connections"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// engineClients makes one client per engine address and keeps it, with its connections.
type engineClients struct {
	settings *engineaddress.ConnectionSettings
	otel     *otel.Exporter
	byURL    sync.Map // *vllm.Client by address
}

// address is what of an engine decides how it is reached.
type address struct {
	url      string
	followed bool // a list of engines names it
}

// newEngineClients reads the files of keys and certificates that the configuration names.
func newEngineClients(cfg connections.Config, traces *otel.Exporter) (*engineClients, error) {
	listed, err := listedURLs(cfg)
	if err != nil {
		return nil, err
	}
	settings, err := engineaddress.NewConnectionSettings(cfg.EngineURLs, cfg.EngineAPIKey.Reveal(), listed, time.Now)
	if err != nil {
		return nil, err
	}
	return &engineClients{settings: settings, otel: traces}, nil
}

// listedURLs is where the configuration lists engines.
func listedURLs(cfg connections.Config) ([]string, error) {
	var listed []string
	for _, e := range cfg.Engines {
		m, err := fleet.NewMember(enginestate.Engine{ID: e.ID, URL: e.URL}, time.Time{})
		if err != nil {
			return nil, err
		}
		listed = append(listed, m.URL)
	}
	return listed, nil
}

// list takes up the engines of another configuration, which decide who is sent the key of MILLRACE_ENGINE_API_KEY.
func (c *engineClients) list(cfg connections.Config) error {
	listed, err := listedURLs(cfg)
	if err == nil {
		c.settings.List(listed)
	}
	return err
}

func (c *engineClients) get(e enginestate.Engine) (*vllm.Client, error) {
	at := address{e.URL, e.Source != ""}
	if client, ok := c.byURL.Load(at); ok {
		return client.(*vllm.Client), nil
	}
	control, err := c.settings.Dial(at.url)
	if err != nil {
		return nil, err
	}
	client, err := vllm.New(vllm.Config{
		BaseURL: at.url, Control: control, TLS: c.settings.TLS(at.url),
		Key:     func() string { return c.settings.Key(at.url, at.followed) },
		Headers: c.otel.Headers,
	})
	if err != nil {
		return nil, err
	}
	first, _ := c.byURL.LoadOrStore(at, client)
	return first.(*vllm.Client), nil
}

// mustGet is get for an engine of the registry, whose address was checked when it joined.
func (c *engineClients) mustGet(e enginestate.Engine) *vllm.Client {
	client, err := c.get(e)
	if err != nil {
		panic(err)
	}
	return client
}

// tracedEngine makes a span of each call for a turn that is traced.
type tracedEngine struct {
	*vllm.Client
	engine enginestate.Engine
	otel   *otel.Exporter
}

// traced is a client that makes spans of its calls, where spans are exported.
func traced(traces *otel.Exporter, engine enginestate.Engine, client *vllm.Client) live.Engine {
	if !traces.Traces() {
		return client
	}
	return tracedEngine{client, engine, traces}
}

func (e tracedEngine) Complete(ctx context.Context, req rollout.Request) (rollout.Completion, error) {
	ctx, end := e.otel.StartCall(ctx, e.engine, &req)
	answer, err := e.Client.Complete(ctx, req)
	end(&answer, err)
	return answer, err
}
