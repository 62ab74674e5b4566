package process

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/kit/filelock"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/scaling/provider"
	"github.com/millrace/millrace/internal/scaling/provider/commandline"
)

// Provider runs the engines of one deployment on this host.
type Provider struct {
	cfg      Config
	name     string   // of the deployment; empty: the caller is none of its workers
	dir      string   // the deployment's orders
	keeper   []string // how a keeper is run; nil: nothing is started
	now      func() time.Time
	patience time.Duration // how much longer than its grace an engine may take to end
	presence presence
}

var _ provider.Provider = (*Provider)(nil)

// New is the provider of a deployment, whose engines are kept apart from others' by its name. Nothing is started or
// looked for before the first call.
func New(cfg Config, deployment string) (*Provider, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	self, err := ownProgram()
	if err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults(os.Getenv)
	dir := filepath.Join(cfg.StateDir, folderName(deployment))
	return &Provider{cfg: cfg, name: deployment, dir: dir, keeper: append([]string{self}, KeeperArgs...), now: time.Now,
		patience: stopPatience, presence: presence{path: filepath.Join(dir, presenceFile)}}, nil
}

// KeeperArgs are the arguments with which this program is a keeper; the order's folder follows.
var KeeperArgs = []string{"engine", "keep"}

// ownProgram is this program's file, also if it was replaced while it runs.
func ownProgram() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program, which keeps engines: %w", err)
	}
	if _, err := os.Stat(self); err != nil {
		if _, err := os.Stat("/proc/self/exe"); err == nil {
			return "/proc/self/exe", nil
		}
	}
	return self, nil
}

var notInFolderNames = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// folderName is a deployment's folder: readable, and different for different deployments.
func folderName(deployment string) string {
	sum := sha256.Sum256([]byte(deployment))
	name := strings.Trim(notInFolderNames.ReplaceAllString(deployment, "-"), "-._")
	return strings.Trim(name[:min(len(name), 80)]+"-"+hex.EncodeToString(sum[:4]), "-")
}

// hostLock is the file of the lock under which everything is changed.
const hostLock = "lock"

// lock excludes every other provider of this host, of whatever deployment.
func (p *Provider) lock(ctx context.Context) (unlock func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of engines: %w", err)
	}
	if p.name != "" {
		if err := p.presence.tell(p.name, p.now()); err != nil {
			return nil, err
		}
	}
	return filelock.Lock(ctx, filepath.Join(p.cfg.StateDir, hostLock))
}

// Start writes the order down and starts the engine, if there is a GPU and a port for it; otherwise it is pending.
func (p *Provider) Start(ctx context.Context, id rollout.EngineID) error {
	if err := provider.ValidateID(id); err != nil {
		return err
	}
	if err := p.checkCommand(); err != nil {
		return fmt.Errorf("start engine %s: %w", id, err)
	}
	unlock, err := p.lock(ctx)
	if err != nil {
		return fmt.Errorf("start engine %s: %w", id, err)
	}
	defer unlock()
	if _, err := os.Lstat(filepath.Join(p.dir, string(id))); err == nil {
		if o := readOrder(filepath.Join(p.dir, string(id))); o.bad == nil && o.stopping() {
			return fmt.Errorf("start engine %s: the engine that had this id is ending; start it when it has ended", id)
		}
	} else if _, err := createOrder(p.dir, id, p.now()); err != nil {
		return err
	}
	return p.placePending(ctx)[id].fails
}

// checkCommand refuses, before there is an order, a command that no engine could be started with.
func (p *Provider) checkCommand() error {
	words, err := commandline.Split(p.cfg.Command)
	if err != nil {
		return err
	}
	ownPath := slices.ContainsFunc(p.cfg.Env, func(text string) bool { return strings.HasPrefix(text, "PATH=") })
	if commandline.HasPlaceholder(words[0]) || ownPath || p.cfg.Dir != "" {
		return nil
	}
	if _, err := exec.LookPath(words[0]); err != nil {
		return fmt.Errorf("command of engines: %w", err)
	}
	return nil
}

// List is every order of the deployment. Engines that waited for a place are started if there is one now.
func (p *Provider) List(ctx context.Context) ([]provider.Instance, error) {
	unlock, err := p.lock(ctx)
	if err != nil {
		return nil, fmt.Errorf("list engines: %w", err)
	}
	defer unlock()
	troubles := p.placePending(ctx)
	orders, err := readOrders(p.dir)
	if err != nil {
		return nil, fmt.Errorf("list engines: %w", err)
	}
	all := make([]provider.Instance, 0, len(orders))
	for _, o := range orders {
		e, waits, err := p.look(o)
		if err != nil {
			return nil, fmt.Errorf("look at engine %s: %w", o.ID, err)
		}
		if t := troubles[o.ID]; waits && (t.waits != nil || t.fails != nil) {
			e.Reason = cmp.Or(t.fails, t.waits).Error()
		}
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b provider.Instance) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return all, nil
}

// look is an engine's state by its order and its keeper's lock. waits: it was not started yet.
func (p *Provider) look(o *order) (e provider.Instance, waits bool, err error) {
	e = provider.Instance{ID: o.ID, State: enginestate.EngineOrdered, Since: o.Since, MaxInFlight: p.cfg.MaxInFlight}
	if o.bad != nil {
		e.State, e.Reason = enginestate.EngineFailed, fmt.Sprintf("its order cannot be read: %v", o.bad)
		return e, false, nil
	}
	if o.Place != nil {
		e.URL = o.Place.URL
	}
	keeper, err := holder(o.file(keeperLock))
	if err != nil {
		return e, false, err
	}
	r, err := o.readRecord()
	switch {
	case o.stopping():
		e.State, e.Reason = enginestate.EngineStopping, "told to end"
	case keeper != 0 && err == nil && r.Engine.PID == 0:
		e.Reason = "its process is being started"
	case keeper != 0:
		e.State = enginestate.EngineRunning
	case err != nil:
		e.State, e.Reason = enginestate.EngineFailed, fmt.Sprintf("what became of it cannot be read: %v", err)
	case !r.EndedAt.IsZero():
		e.State, e.Reason = enginestate.EngineFailed, r.Reason
	case !r.StartedAt.IsZero():
		e.State, e.Reason = enginestate.EngineFailed, p.abandoned(o, r)
	default:
		waits = true
	}
	return e, waits, nil
}

// abandoned cleans up an engine whose keeper died, records its end, and returns the reason.
func (p *Provider) abandoned(o *order, r record) string {
	left := killMarked(o.Nonce, r.Engine)
	r.EndedAt = p.now().UTC()
	r.Reason = "ended without a word: its keeper was killed, or the host restarted"
	if left > 0 {
		r.Reason = "its keeper was killed; the rest of it was killed, too"
	}
	_ = o.writeRecord(r) // the next to look finds the same
	return r.Reason
}

// PID is the process of an engine that runs; 0: it is not known, or there is none.
func (p *Provider) PID(id rollout.EngineID) int {
	o := readOrder(filepath.Join(p.dir, string(id)))
	if r, err := o.readRecord(); o.bad == nil && err == nil && r.EndedAt.IsZero() {
		return r.Engine.PID
	}
	return 0
}

// byAge orders what waits for a place.
func byAge(a, b *order) int {
	return cmp.Or(a.Since.Compare(b.Since), strings.Compare(string(a.ID), string(b.ID)))
}
