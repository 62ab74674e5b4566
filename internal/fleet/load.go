package fleet

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/vllm"
)

// loadCeiling bounds one load with its verification: while an engine reads weights, its requests stand still.
const loadCeiling = 2 * time.Minute

// NotListed is the code of an adapter that an engine took and then does not serve.
const NotListed = "adapter_not_listed"

// Load makes an engine serve an adapter and verifies that it does, from the right path. Doing it
// again is harmless. The failure says whose turn it is: a permanent one is the adapter's or the engine's
// configuration, with the setting to change; others may pass.
func Load(ctx context.Context, c Client, engine rollout.EngineID, a Adapter) (seconds float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, loadCeiling)
	defer cancel()
	start := time.Now()
	if err := c.LoadAdapter(ctx, a.Name, a.Path); err != nil {
		return time.Since(start).Seconds(), advise(fmt.Errorf("engine %s: %w", engine, err))
	}
	err = verify(ctx, c, a)
	if err != nil {
		err = fmt.Errorf("engine %s: %w", engine, err)
	}
	return time.Since(start).Seconds(), err
}

func verify(ctx context.Context, c Client, a Adapter) error {
	models, err := c.Models(ctx)
	if err != nil {
		return fmt.Errorf("verify adapter %s: %w", a.Name, err)
	}
	root, loaded := adapterRoots(models)[a.Name]
	switch {
	case !loaded:
		return rollout.Fail(rollout.Retryable, NotListed, fmt.Errorf("adapter %s was loaded, yet /v1/models does not list it", a.Name))
	case !samePath(root, a.Path):
		return rollout.Fail(rollout.Permanent, vllm.AdapterConflict,
			fmt.Errorf("adapter %s is served from %s, not from %s", a.Name, root, a.Path))
	}
	return nil
}

// advise adds what to change where the engine's own words do not say it, and keeps the failure's kind and code.
func advise(err error) error {
	text := strings.ToLower(err.Error())
	advice := ""
	switch code := vllm.CodeOf(err); {
	case code == vllm.AdapterMissing:
		advice = "share the directory with the engine, and set adapters.path_prefix to where it is mounted there"
	case code != vllm.BadAdapter:
		return err
	case strings.Contains(text, "dora"):
		advice = "vLLM serves no DoRA adapters: train with use_dora=False"
	case strings.Contains(text, "modules_to_save"):
		advice = "vLLM serves no fully trained modules: train with modules_to_save=None"
	case strings.Contains(text, "bias"):
		advice = "vLLM serves no LoRA bias: train with bias=\"none\""
	default:
		advice = "compare adapter_config.json with what the engine's version of vLLM supports"
	}
	return fmt.Errorf("%w (%s)", err, advice)
}
