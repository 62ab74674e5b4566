package fleet

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

// changedFiles knows which adapters' files are not those that were published. Engines may read them again at any time.
type changedFiles struct {
	mu    sync.Mutex
	known map[string]string // how they have changed, by the adapter's name
}

// all is every adapter whose files have changed.
func (c *changedFiles) all() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.known)
}

// look compares the files of all adapters in use with what was published, and reports what has begun or ceased to
// differ.
func (c *changedFiles) look(ctx context.Context, cfg *KeeperConfig) {
	wanted, err := cfg.Registry.Wanted(ctx)
	if err != nil {
		return // the next look makes up for it
	}
	found := map[string]string{}
	for _, a := range wanted {
		err := cfg.Loader.Files.Unchanged(ctx, a.files())
		if ctx.Err() != nil {
			return
		}
		why := ""
		if err != nil && rollout.KindOf(err) == rollout.Permanent {
			why = err.Error()
			found[a.Name] = why
		}
		c.mu.Lock()
		was := c.known[a.Name]
		c.mu.Unlock()
		if (was == "") != (why == "") {
			now := time.Now().UTC()
			cfg.Emit.Emit(telemetry.Event{
				At: now, Run: a.Run, Key: fmt.Sprintf("%s/changed/%d", a.Name, now.UnixMilli()),
				Body: telemetry.AdapterChanged{Adapter: a.Name, Version: a.Version, Path: a.Path, Reason: why},
			})
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known = found
}

// run looks again and again until ctx is done.
func (c *changedFiles) run(ctx context.Context, cfg *KeeperConfig) {
	tick := time.NewTicker(cfg.FilesEvery)
	defer tick.Stop()
	for {
		c.look(ctx, cfg)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
