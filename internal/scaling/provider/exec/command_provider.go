// Package exec is the provider that gets engines with an operator's own commands, such as those of a batch system or a
// cloud. It passes requests to them as JSON and in their environment, and reads their lists; docs/providers.md is the
// protocol. Commands need not be idempotent for consecutive calls: an engine is looked for before it is started, and
// changing calls of one deployment on one host come one after another.
//
// Start reading at Provider.
package exec

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
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
	cfg.Timeout = cmp.Or(cfg.Timeout, rollout.Duration(DefaultTimeout))
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
