package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/kit/filelock"

	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/scaling/provider"
)

// Deployment is one deployment's engines on this host. If it has no worker here any more, its engines belong to nobody.
type Deployment struct {
	Name      string `json:"deployment"`
	Folder    string `json:"folder"`
	HasWorker bool   `json:"has_worker"` // a worker of this host looks after its engines
	// WorkerSeen is when a worker last looked after them; zero: not recorded.
	WorkerSeen time.Time `json:"worker_seen,omitzero"`
	Engines    []Engine  `json:"engines"`
}

// Engine is an engine as processes of any deployment may see it.
type Engine struct {
	provider.Instance
	PID  int    `json:"pid,omitempty"`
	GPUs string `json:"gpus,omitempty"`
}

// DefaultStateDir is where engines' state is if no configuration says where.
func DefaultStateDir(getenv func(string) string) string {
	return Config{}.withDefaults(getenv).StateDir
}

// Deployments is every deployment that has engines below a folder for state, by folder. Nothing is started.
func Deployments(ctx context.Context, stateDir string) ([]Deployment, error) {
	folders, err := os.ReadDir(stateDir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list deployments: %w", err)
	}
	unlock, err := filelock.Lock(ctx, filepath.Join(stateDir, hostLock))
	if err != nil {
		return nil, fmt.Errorf("list deployments: %w", err)
	}
	defer unlock()
	var all []Deployment
	for _, f := range folders {
		if !f.IsDir() {
			continue
		}
		d, err := surveyDeployment(filepath.Join(stateDir, f.Name()))
		if err != nil {
			return nil, fmt.Errorf("look at the engines in %s: %w", f.Name(), err)
		}
		if len(d.Engines) > 0 {
			all = append(all, d)
		}
	}
	return all, nil
}

func surveyDeployment(dir string) (d Deployment, err error) {
	d = Deployment{Name: nameOf(dir), Folder: dir, Engines: []Engine{}}
	if d.HasWorker, err = filelock.IsHeld(filepath.Join(dir, presenceFile)); err != nil {
		return d, err
	}
	if info, err := os.Stat(filepath.Join(dir, presenceFile)); err == nil {
		d.WorkerSeen = info.ModTime().UTC()
	}
	orders, err := readOrders(dir)
	if err != nil {
		return d, err
	}
	p := bystander(dir)
	for _, o := range orders {
		e := Engine{}
		var waits bool
		if e.Instance, waits, err = p.look(o); err != nil {
			return d, err
		}
		if waits {
			e.Reason = "waits for a place"
		}
		if o.Place != nil {
			e.GPUs = o.Place.GPUs
		}
		if e.State == enginestate.EngineRunning {
			e.PID = p.PID(e.ID)
		}
		d.Engines = append(d.Engines, e)
	}
	return d, nil
}

// bystander looks at a deployment's engines and stops them, and starts none.
func bystander(dir string) *Provider {
	return &Provider{cfg: Config{StateDir: filepath.Dir(dir)}.withDefaults(os.Getenv), dir: dir, now: time.Now,
		patience: stopPatience}
}

// Stop stops all engines of the deployment at once.
func (d Deployment) Stop(ctx context.Context) error {
	p := bystander(d.Folder)
	var wg sync.WaitGroup
	faults := make([]error, len(d.Engines))
	for i, e := range d.Engines {
		wg.Go(func() { faults[i] = p.Stop(ctx, e.ID) })
	}
	wg.Wait()
	return errors.Join(faults...)
}

// StopAll stops every engine of a folder for state, of whatever deployment, all at once.
func StopAll(ctx context.Context, stateDir string) error {
	deployments, err := Deployments(ctx, stateDir)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	faults := make([]error, len(deployments))
	for i, d := range deployments {
		wg.Go(func() { faults[i] = d.Stop(ctx) })
	}
	wg.Wait()
	return errors.Join(faults...)
}

// nameOf is the name of the deployment that has a folder, as far as the folder tells.
func nameOf(dir string) string {
	folder := filepath.Base(dir)
	if text, err := os.ReadFile(filepath.Join(dir, presenceFile)); err == nil && folderName(string(text)) == folder {
		return string(text)
	}
	if i := strings.LastIndexByte(folder, '-'); i > 0 && folderName(folder[:i]) == folder {
		return folder[:i]
	}
	return folder
}
