// Package exec is the provider that gets engines with an operator's own commands, such as those of a batch system or a
// cloud. It passes requests to them as JSON and in their environment, and reads their lists; docs/providers.md is the
// protocol. Commands need not be idempotent for consecutive calls: an engine is looked for before it is started, and
// changing calls of one deployment on one host come one after another.
//
// Start reading at Provider.
package exec

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/kit/filelock"
	"github.com/millrace/millrace/internal/kit/statefolder"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/scaling/provider"
)

// Provider runs an operator's commands for one deployment.
type Provider struct {
	cfg        Config
	deployment string
	lockFile   string
}

var _ provider.Provider = (*Provider)(nil)

// New is the provider of a deployment, whose name the commands are told unless the configuration has another one.
func New(cfg Config, deployment string) (*Provider, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	name := cfg.Deployment
	if name == "" {
		name = deploymentName(deployment)
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = rollout.Duration(DefaultTimeout)
	}
	lock := filepath.Join(statefolder.Of(os.Getenv), "millrace", "commands", name+".lock")
	return &Provider{cfg: cfg, deployment: name, lockFile: lock}, nil
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// deploymentName is a name as batch systems and clouds take it, in labels and in names of jobs: itself if it is one.
func deploymentName(text string) string {
	const most = 63
	name := strings.Trim(notInNames.ReplaceAllString(text, "-"), "-._")
	if name == text && len(name) <= most && name != "" {
		return name
	}
	sum := sha256.Sum256([]byte(text))
	return strings.Trim(name[:min(len(name), most-9)]+"-"+hex.EncodeToString(sum[:4]), "-")
}

// request is the input of a command.
type request struct {
	Version    int              `json:"version"`
	Call       string           `json:"call"` // start, stop or list
	Deployment string           `json:"deployment"`
	ID         rollout.EngineID `json:"id,omitempty"`
}

// protocol is the version of requests and answers.
const protocol = 1

// Start runs the start command, unless the engine is listed.
func (p *Provider) Start(ctx context.Context, id rollout.EngineID) error {
	if err := provider.ValidateID(id); err != nil {
		return err
	}
	ctx, cancel := p.bounded(ctx, 2)
	defer cancel()
	unlock, err := p.lock(ctx)
	if err != nil {
		return fmt.Errorf("start engine %s: %w", id, err)
	}
	defer unlock()
	all, err := p.list(ctx)
	if err != nil {
		return fmt.Errorf("start engine %s, looking whether it is there: %w", id, err)
	}
	if slices.ContainsFunc(all, func(e provider.Instance) bool { return e.ID == id }) {
		return nil
	}
	if _, err := p.run(ctx, p.cfg.Start, request{protocol, "start", p.deployment, id}); err != nil {
		return fmt.Errorf("start engine %s: %w", id, err)
	}
	return nil
}

// Stop runs the stop command.
func (p *Provider) Stop(ctx context.Context, id rollout.EngineID) error {
	if provider.ValidateID(id) != nil {
		return ctx.Err() // nothing is ever started under it
	}
	ctx, cancel := p.bounded(ctx, 1)
	defer cancel()
	unlock, err := p.lock(ctx)
	if err != nil {
		return fmt.Errorf("stop engine %s: %w", id, err)
	}
	defer unlock()
	if _, err := p.run(ctx, p.cfg.Stop, request{protocol, "stop", p.deployment, id}); err != nil {
		return fmt.Errorf("stop engine %s: %w", id, err)
	}
	return nil
}

// List runs the list command. It waits for no other call.
func (p *Provider) List(ctx context.Context) ([]provider.Instance, error) {
	ctx, cancel := p.bounded(ctx, 1)
	defer cancel()
	all, err := p.list(ctx)
	if err != nil {
		return nil, fmt.Errorf("list engines: %w", err)
	}
	return all, nil
}

func (p *Provider) list(ctx context.Context) ([]provider.Instance, error) {
	out, err := p.run(ctx, p.cfg.List, request{protocol, "list", p.deployment, ""})
	if err != nil {
		return nil, err
	}
	all, err := readList(out, p.deployment, p.cfg.MaxInFlight)
	if err != nil {
		return nil, errors.New(provider.Redact(err.Error(), p.environment()))
	}
	return all, nil
}

// bounded allows for a number of commands.
func (p *Provider) bounded(ctx context.Context, commands int) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, time.Duration(commands)*p.cfg.Timeout.Std())
}

// lock excludes other calls of the deployment on this host.
func (p *Provider) lock(ctx context.Context) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(p.lockFile), 0o700); err != nil {
		return nil, err
	}
	return filelock.Lock(ctx, p.lockFile)
}

// listed is an engine as a list command describes it.
type listed struct {
	provider.Instance
	Deployment string `json:"deployment"`
}

// readList reads {"engines": [...]}, or the list alone. Engines of another deployment are left out, where the command
// says whose they are; so a command that lists too much does no harm.
func readList(out []byte, deployment string, maxInFlight int) ([]provider.Instance, error) {
	var whole struct {
		Engines *[]listed `json:"engines"`
	}
	var entries []listed
	if text := strings.TrimSpace(string(out)); strings.HasPrefix(text, "[") {
		if err := json.Unmarshal(out, &entries); err != nil {
			return nil, wrongList(out, err)
		}
	} else {
		if err := json.Unmarshal(out, &whole); err != nil {
			return nil, wrongList(out, err)
		}
		if whole.Engines == nil {
			return nil, wrongList(out, errors.New("there is no engines in it"))
		}
		entries = *whole.Engines
	}
	all := make([]provider.Instance, 0, len(entries))
	for i, e := range entries {
		if e.Deployment != "" && e.Deployment != deployment {
			continue
		}
		if err := checkListed(e); err != nil {
			return nil, wrongList(out, fmt.Errorf("engine %d: %w", i, err))
		}
		if e.MaxInFlight == 0 {
			e.MaxInFlight = maxInFlight
		}
		all = append(all, e.Instance)
	}
	slices.SortFunc(all, func(a, b provider.Instance) int { return strings.Compare(string(a.ID), string(b.ID)) })
	for i := 1; i < len(all); i++ {
		if all[i].ID == all[i-1].ID {
			return nil, wrongList(out, fmt.Errorf("engine %s is in it twice", all[i].ID))
		}
	}
	return all, nil
}

func checkListed(e listed) error {
	if err := provider.ValidateID(e.ID); err != nil {
		return err
	}
	switch e.State {
	case enginestate.EngineRunning:
		if e.URL == "" {
			return fmt.Errorf("%s is running and has no url; list it as ordered until its address is known", e.ID)
		}
	case enginestate.EngineOrdered, enginestate.EngineStopping, enginestate.EngineFailed:
	default:
		return fmt.Errorf("%s has the state %q; want ordered, running, stopping or failed", e.ID, e.State)
	}
	if e.URL != "" && !strings.HasPrefix(e.URL, "http://") && !strings.HasPrefix(e.URL, "https://") {
		return fmt.Errorf("%s has the url %q; want http://host:port, without /v1", e.ID, e.URL)
	}
	if e.MaxInFlight < 0 {
		return fmt.Errorf("%s has max_in_flight %d", e.ID, e.MaxInFlight)
	}
	return nil
}

func wrongList(out []byte, err error) error {
	return fmt.Errorf(`the list command's answer is not {"engines": [{"id", "url", "state"}, ...]}: %w; it began with %q`,
		err, string(out[:min(len(out), 120)]))
}
