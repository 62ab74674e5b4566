package onevllm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/kit/retry"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/store/loranames"
)

type loraCall struct {
	Name    string `json:"lora_name"`
	Path    string `json:"lora_path"`
	InPlace bool   `json:"load_inplace"`
}

func (c *call) loraCall() (in loraCall, err error) {
	body, err := io.ReadAll(c.r.Body)
	if err != nil {
		return in, err
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return in, &fault{http.StatusBadRequest, badRequest, "the body is no JSON with lora_name: " + err.Error()}
	}
	return in, nil
}

// load publishes an adapter as the run's next version, and returns when the fleet serves it.
func (c *call) load() error {
	in, err := c.loraCall()
	switch {
	case err != nil:
		return err
	case in.Name == "" || in.Path == "":
		return &fault{http.StatusBadRequest, userInput, "Both 'lora_name' and 'lora_path' must be provided."}
	case in.Name == c.status.Spec.Model:
		return &fault{http.StatusBadRequest, userInput, "the base model has this name"}
	}
	primeRL := c.path == "/load_lora_adapter"
	defer c.takeTurn()()
	known, _, err := c.Names.Look(c.r.Context(), c.run, in.Name)
	if err != nil {
		return err
	}
	if known != nil && !in.InPlace && !primeRL {
		return &fault{http.StatusBadRequest, userInput, fmt.Sprintf("The lora adapter '%s' has already been loaded. If you "+
			"want to load the adapter in place, set 'load_inplace' to True.", in.Name)}
	}
	v, err := c.publish(in.Path)
	if _, outside := c.status.Spec.Adapters.Clean(in.Path); rollout.Refused(err, rollout.Invalid) && (outside != nil ||
		strings.Contains(err.Error(), missing)) {
		return &fault{http.StatusNotFound, notFound, fmt.Sprintf("Loading lora %s failed: %s for %s: %v", in.Name, missing,
			in.Path, err)}
	}
	if err != nil {
		return err
	}
	err = c.Names.Set(c.r.Context(), c.run, in.Name,
		loranames.Loaded{Version: v, Path: in.Path, At: time.Now().Unix()})
	switch {
	case err != nil:
		return err
	case primeRL:
		return c.tell(map[string]string{"status": "ok"})
	}
	return c.say(fmt.Sprintf("Success: LoRA adapter '%s' added successfully.", in.Name))
}

// missing is what vLLM says of a path at which there is nothing to load. To a client so is a path that the run does not
// allow.
const missing = "No adapter found"

// turn is held by one publication of a run at a time.
type turn struct {
	sync.Mutex
	wanted int // by how many, the holder included
}

// takeTurn returns when nobody else publishes a version of the run here.
func (c *call) takeTurn() (leave func()) {
	c.mu.Lock()
	t := c.loading[c.run]
	if t == nil {
		t = &turn{}
		c.loading[c.run] = t
	}
	t.wanted++
	c.mu.Unlock()
	t.Lock()
	return func() {
		t.Unlock()
		c.mu.Lock()
		defer c.mu.Unlock()
		if t.wanted--; t.wanted == 0 {
			delete(c.loading, c.run)
		}
	}
}

// publish publishes the next version. Another server, or another client of the run, may have been faster.
func (c *call) publish(path string) (v rollout.PolicyVersion, err error) {
	const tries = 5
	for range tries {
		if v, err = c.newest(); err != nil {
			return 0, err
		}
		v++
		if err = c.Publish(c.r.Context(), c.run, v, path); err == nil {
			return v, nil
		}
		if !rollout.Refused(err, rollout.OutOfOrder) && !rollout.Refused(err, rollout.Conflict) {
			return 0, err
		}
		if waited := retry.Pause(c.r.Context(), 2*lookEvery); waited != nil {
			return 0, waited
		}
	}
	return 0, err
}

// newest is the newest version that is known here: what was published last may not be in the run's status yet.
func (c *call) newest() (rollout.PolicyVersion, error) {
	status, err := c.Status(c.r.Context(), c.run)
	if err != nil {
		return 0, err
	}
	names, _, err := c.Names.All(c.r.Context(), c.run)
	newest := status.PolicyVersion
	for _, n := range names {
		newest = max(newest, n.Version)
	}
	return newest, err
}

// unload takes a name back, and returns when the last call by it has ended. The engines keep the version until the run
// has published as many more as buffer.max_staleness allows.
func (c *call) unload() error {
	in, err := c.loraCall()
	switch {
	case err != nil:
		return err
	case in.Name == "":
		return &fault{http.StatusBadRequest, userInput, "'lora_name' needs to be provided to unload a LoRA adapter."}
	}
	ctx := c.r.Context()
	known, _, err := c.Names.Look(ctx, c.run, in.Name)
	if err != nil {
		return err
	}
	if known == nil {
		return &fault{http.StatusNotFound, notFound, fmt.Sprintf("The lora adapter '%s' cannot be found.", in.Name)}
	}
	if _, err := c.Names.Remove(ctx, c.run, in.Name); err != nil {
		return err
	}
	model := known.Version.Adapter(c.run)
	err = until(ctx, func() (bool, error) {
		c.mu.Lock()
		here := c.under[use{c.run, model}]
		c.mu.Unlock()
		if here > 0 {
			return false, nil
		}
		all, err := c.Fleet.Uses(ctx, c.run, model)
		return all == 0, err
	})
	if err != nil {
		return err
	}
	return c.say(fmt.Sprintf("Success: LoRA adapter '%s' removed successfully.", in.Name))
}

// until looks again and again until something is so.
func until(ctx context.Context, so func() (bool, error)) error {
	for {
		if is, err := so(); is || err != nil {
			return err
		}
		if err := retry.Pause(ctx, lookEvery); err != nil {
			return err
		}
	}
}

// errPaused ends the calls of a run that is paused by abort.
var errPaused = errors.New("paused with mode abort")

// pause holds the calls that come from now on. Those at engines go on to their ends, by the version with which they
// began: keep answers at once, wait when they have ended, and abort, the default, ends them.
func (c *call) pause() error {
	mode := c.r.URL.Query().Get("mode")
	switch mode {
	case "", "abort", "wait", "keep":
	default:
		return &fault{http.StatusBadRequest, badRequest, fmt.Sprintf("mode %q: use abort, wait or keep", mode)}
	}
	ctx := c.r.Context()
	if err := c.Names.Hold(ctx, c.run, true); err != nil {
		return err
	}
	if mode == "" || mode == "abort" {
		c.mu.Lock()
		for cancel, run := range c.cancels {
			if run == c.run {
				(*cancel)(errPaused)
			}
		}
		c.mu.Unlock()
	}
	if mode != "keep" {
		err := until(ctx, func() (bool, error) {
			all, err := c.Fleet.Uses(ctx, c.run, "")
			return all == 0, err
		})
		if err != nil {
			return err
		}
	}
	return c.tell(map[string]string{"status": "paused"})
}

func (c *call) resume() error {
	if err := c.Names.Hold(c.r.Context(), c.run, false); err != nil {
		return err
	}
	return c.tell(map[string]string{"status": "resumed"})
}

func (c *call) isPaused() error {
	_, held, err := c.Names.Look(c.r.Context(), c.run, "")
	if err != nil {
		return err
	}
	return c.tell(map[string]bool{"is_paused": held})
}
