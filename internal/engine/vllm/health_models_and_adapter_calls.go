package vllm

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/rollout"
)

// Bounds of the answers on an engine's control routes, in bytes, entries and bytes. An engine that serves more adapters
// serves none of them well.
const (
	maxControlBytes = 64 << 10
	maxModelsBytes  = 2 << 20
	maxModels       = 1024
	maxNameBytes    = 256
	maxPathBytes    = 4096
)

// Model is one entry of /v1/models.
type Model struct {
	ID          string `json:"id"`
	Root        string `json:"root"`          // path it was loaded from
	Parent      string `json:"parent"`        // of an adapter: the base model; else empty
	MaxModelLen int    `json:"max_model_len"` // of a base model; else 0
}

// Adapter reports whether m is a LoRA adapter.
func (m Model) Adapter() bool { return m.Parent != "" }

// Health is nil while the engine's core lives. It stays nil while the engine is paused or overloaded.
func (c *Client) Health(ctx context.Context) error {
	_, err := c.get(ctx, "/health", maxControlBytes)
	var status *StatusError
	if errors.As(err, &status) && status.Status == http.StatusServiceUnavailable {
		// Here, and only here, 503 is no sign of overload.
		return rollout.Fail(rollout.Retryable, rollout.CodeEngineDead, fmt.Errorf("health: %w", status))
	}
	return err
}

// Version is the engine's software version.
func (c *Client) Version(ctx context.Context) (string, error) {
	var answer struct {
		Version string `json:"version"`
	}
	if err := c.getJSON(ctx, "/version", maxControlBytes, &answer); err != nil {
		return "", err
	}
	return cleaned(answer.Version, 64), nil
}

// ServerInfo is what the engine tells of its own configuration, where it may.
func (c *Client) ServerInfo(ctx context.Context) (info map[string]any, err error) {
	err = c.getJSON(ctx, "/server_info?config_format=json", maxModelsBytes, &info)
	return info, err
}

// Models lists what the engine has registered, adapters included. Long or unprintable names, for which no deployment
// can have asked, are left out.
func (c *Client) Models(ctx context.Context) ([]Model, error) {
	answer := struct {
		Data bounded[Model] `json:"data"`
	}{bounded[Model]{most: maxModels}}
	if err := c.getJSON(ctx, "/v1/models", maxModelsBytes, &answer); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(answer.Data.list, func(m Model) bool { return !m.sound() }), nil
}

func (m Model) sound() bool {
	return m.ID != "" && m.ID == cleaned(m.ID, maxNameBytes) && m.Parent == cleaned(m.Parent, maxNameBytes) &&
		m.Root == cleaned(m.Root, maxPathBytes) && m.MaxModelLen >= 0
}

// LoadAdapter loads the weights at path, as the engine sees it, under name, and returns when they
// are in the worker. Loading the same path under the same name again succeeds, so a call whose answer was
// lost may be repeated.
func (c *Client) LoadAdapter(ctx context.Context, name, path string) error {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.LoadTimeout)
	defer cancel()
	what := fmt.Sprintf("load adapter %s from %s", name, path)
	_, err := c.post(ctx, "/v1/load_lora_adapter", map[string]string{"lora_name": name, "lora_path": path},
		maxControlBytes)
	var status *StatusError
	if !errors.As(err, &status) {
		return c.wrap(ctx, what, err)
	}
	if strings.Contains(status.Message, "has already been loaded") {
		return c.sameRoot(ctx, what, name, path)
	}
	return loadFailure(what, status)
}

// sameRoot decides on "already loaded": success if name serves the weights of path.
func (c *Client) sameRoot(ctx context.Context, what, name, path string) error {
	models, err := c.Models(ctx)
	if err != nil {
		return fmt.Errorf("%s: already loaded: %w", what, err)
	}
	for _, m := range models {
		switch {
		case m.ID != name:
		case m.Root == path:
			return nil
		default:
			return rollout.Fail(rollout.Permanent, rollout.CodeAdapterConflict,
				fmt.Errorf("%s: the name already serves %s; use a new name for new weights", what, m.Root))
		}
	}
	return rollout.Fail(rollout.Retryable, rollout.CodeEngineError, fmt.Errorf("%s: already loaded, yet not listed", what))
}

// loadFailure reads the engine's words: its status codes do not tell a bad adapter from a bad moment.
func loadFailure(what string, status *StatusError) error {
	err := fmt.Errorf("%s: %w", what, status)
	has := func(text string) bool { return strings.Contains(status.Message, text) }
	switch {
	case status.Status == http.StatusNotFound && status.Type == "":
		return rollout.Fail(rollout.Permanent, rollout.CodeLoRADisabled,
			fmt.Errorf("%w: start the engine with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True", err))
	case status.Status == http.StatusNotFound, has("No adapter found"):
		return rollout.Fail(rollout.Permanent, rollout.CodeAdapterMissing,
			fmt.Errorf("%w: the path must hold adapter_config.json where the engine runs", err))
	case has("greater than max_lora_rank"):
		return rollout.Fail(rollout.Permanent, rollout.CodeRankTooHigh,
			fmt.Errorf("%w: start the engine with a larger --max-lora-rank or train a smaller rank", err))
	case has(coreTrouble):
		return rollout.Fail(rollout.Retryable, rollout.CodeEngineDead, err)
	case has("add_lora method failed") && !transient(status.Message), has("could not be loaded"):
		return rollout.Fail(rollout.Permanent, rollout.CodeBadAdapter, err)
	}
	kind, code := reaction(status)
	return rollout.Fail(kind, code, err)
}

// transient reports whether a load failed for the file system, which may pass, and not for the adapter.
func transient(message string) bool {
	for _, sign := range []string{"OSError", "IOError", "Errno", "Input/output error", "Stale file handle",
		"No space left"} {
		if strings.Contains(message, sign) {
			return true
		}
	}
	return false
}

// UnloadAdapter takes name off the engine's list; a name that is not there is no error. Requests in flight go on
// with the old weights, and the engine frees the memory when it needs it.
func (c *Client) UnloadAdapter(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.ControlTimeout)
	defer cancel()
	what := "unload adapter " + name
	_, err := c.post(ctx, "/v1/unload_lora_adapter", map[string]string{"lora_name": name}, maxControlBytes)
	var status *StatusError
	if errors.As(err, &status) && status.Status == http.StatusNotFound {
		if status.Type != "" {
			return nil
		}
		return loadFailure(what, status)
	}
	return c.wrap(ctx, what, err)
}
