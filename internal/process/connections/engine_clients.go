package connections

import (
	"sync"
	"time"

	engineaddress "github.com/millrace/millrace/internal/engine/address"
	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/engine/vllm"
	"github.com/millrace/millrace/internal/observe/otel"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// EngineClients makes one client per engine address and keeps it, with its connections.
type EngineClients struct {
	Settings *engineaddress.ConnectionSettings
	otel     *otel.Exporter
	byURL    sync.Map // *vllm.Client by address
}

// address is what of an engine decides how it is reached.
type address struct {
	url      string
	followed bool // a list of engines names it
}

// NewEngineClients reads the files of keys and certificates that the configuration names.
func NewEngineClients(cfg Config, traces *otel.Exporter) (*EngineClients, error) {
	listed, err := listedURLs(cfg)
	if err != nil {
		return nil, err
	}
	settings, err := engineaddress.NewConnectionSettings(cfg.EngineURLs, cfg.EngineAPIKey.Reveal(), listed, time.Now)
	if err != nil {
		return nil, err
	}
	return &EngineClients{Settings: settings, otel: traces}, nil
}

// listedURLs is where the configuration lists engines.
func listedURLs(cfg Config) ([]string, error) {
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

// List takes up the engines of another configuration, which decide who is sent the key of MILLRACE_ENGINE_API_KEY.
func (c *EngineClients) List(cfg Config) error {
	listed, err := listedURLs(cfg)
	if err == nil {
		c.Settings.List(listed)
	}
	return err
}

// Get is an engine's client. An address that is not allowed is refused.
func (c *EngineClients) Get(e enginestate.Engine) (*vllm.Client, error) {
	at := address{e.URL, e.Source != ""}
	if client, ok := c.byURL.Load(at); ok {
		return client.(*vllm.Client), nil
	}
	control, err := c.Settings.Dial(at.url)
	if err != nil {
		return nil, err
	}
	client, err := vllm.New(vllm.Config{
		BaseURL: at.url, Control: control, TLS: c.Settings.TLS(at.url),
		Key:     func() string { return c.Settings.Key(at.url, at.followed) },
		Headers: c.otel.Headers,
	})
	if err != nil {
		return nil, err
	}
	first, _ := c.byURL.LoadOrStore(at, client)
	return first.(*vllm.Client), nil
}

// MustGet is Get for an engine of the registry, whose address was checked when it joined.
func (c *EngineClients) MustGet(e enginestate.Engine) *vllm.Client {
	client, err := c.Get(e)
	if err != nil {
		panic(err)
	}
	return client
}
