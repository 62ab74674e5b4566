package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/engine/adapterfiles"
	"github.com/millrace/millrace/internal/engine/vllm"
	"github.com/millrace/millrace/internal/rollout"
)

// loadCeiling bounds one load with its verification: while an engine reads weights, its requests stand still.
const loadCeiling = 2 * time.Minute

// Loader loads adapters on engines. Without Records, nothing is recorded, and an engine that serves the name from the
// right path is believed; without Files, no digest is compared.
type Loader struct {
	Records *Registry // of what engines were asked to load
	Files   *adapterfiles.Reader
}

// Load makes an engine serve an adapter and verifies that it does: the weights that were published, and from the right
// path. Doing it again is harmless. A permanent failure is the adapter's or the engine's configuration, with the
// setting to change; others are transient.
func (l Loader) Load(
	ctx context.Context, c Client, engine rollout.EngineID, a Adapter,
) (seconds float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, loadCeiling)
	defer cancel()
	start := time.Now()
	err = l.load(ctx, c, engine, a)
	if err != nil {
		err = advise(fmt.Errorf("engine %s: %w", engine, err))
	}
	return time.Since(start).Seconds(), err
}

func (l Loader) load(ctx context.Context, c Client, engine rollout.EngineID, a Adapter) error {
	if err := l.Files.Unchanged(ctx, a.files()); err != nil {
		return err
	}
	if serves, err := l.record(ctx, c, engine, a); err != nil || serves {
		return err
	}
	if err := c.LoadAdapter(ctx, a.Name, a.Path); err != nil {
		var answer *vllm.StatusError
		if errors.As(err, &answer) && rollout.KindOf(err) == rollout.Permanent { // it was asked, and refused
			return errors.Join(err, l.forget(ctx, engine, a))
		}
		return err
	}
	models, err := verify(ctx, c, a)
	if err != nil {
		return err
	}
	err = l.Files.Unchanged(ctx, a.files()) // nor while the engine read them
	if rollout.KindOf(err) != rollout.Permanent {
		err = l.prove(ctx, c, engine, a, models)
	}
	if rollout.KindOf(err) == rollout.Permanent {
		return errors.Join(err, c.UnloadAdapter(ctx, a.Name))
	}
	return err
}

// record records what the engine is about to be asked, and reports whether it serves the adapter already. An engine
// that lists the name without our having asked for these weights has other weights under it, and so has its prefix
// cache. If that is not certain, because Redis has gone back, the engine unloads the adapter first.
func (l Loader) record(ctx context.Context, c Client, engine rollout.EngineID, a Adapter) (serves bool, err error) {
	if l.Records == nil {
		return false, nil
	}
	records, err := l.Records.LoadRecords(ctx, engine)
	if err != nil {
		return false, err
	}
	asked, ok := records[a.Name]
	ok = ok && asked.isOf(a)
	if ok && !asked.proven() {
		return false, nil
	}
	models, err := c.Models(ctx)
	if err != nil {
		return false, fmt.Errorf("look for adapter %s: %w", a.Name, err)
	}
	roots := adapterRoots(models)
	root, listed := roots[a.Name]
	switch {
	case listed && ok && samePath(root, a.Path):
		return true, nil
	case listed:
		records, err = l.Records.ComparedLoads(ctx, engine, roots)
		if err != nil {
			return false, err
		}
		if !mustReload(a, root, records) {
			conflict := rollout.Fail(rollout.Permanent, rollout.CodeAdapterConflict, errors.New(foreign(a, root)))
			return false, errors.Join(conflict, l.Records.RecordForeign(ctx, engine, a.Name, root))
		}
		if err := l.Unload(ctx, c, engine, a.Name); err != nil {
			return false, err
		}
	}
	return false, l.Records.RecordLoad(ctx, engine, a) // what it had proven before it was restarted counts no more
}

// foreign says that an engine has other weights under an adapter's name.
func foreign(a Adapter, root string) string {
	if !samePath(root, a.Path) {
		return fmt.Sprintf("adapter %s is served from %s, not from %s: restart the engine", a.Name, root, a.Path)
	}
	return fmt.Sprintf("adapter %s is served from %s already, and not by this deployment or with other weights: "+
		"restart the engine", a.Name, root)
}

// forget forgets a load that the engine has refused.
func (l Loader) forget(ctx context.Context, engine rollout.EngineID, a Adapter) error {
	if l.Records == nil {
		return nil
	}
	return l.Records.ForgetLoads(ctx, engine, a.Name)
}

// Unload takes an adapter off an engine and verifies that it is gone. The record stays: an abandoned load may end
// later.
func (l Loader) Unload(ctx context.Context, c Client, engine rollout.EngineID, name string) error {
	if err := c.UnloadAdapter(ctx, name); err != nil {
		return err
	}
	models, err := c.Models(ctx)
	if err != nil {
		return fmt.Errorf("verify that adapter %s is gone: %w", name, err)
	}
	if _, listed := adapterRoots(models)[name]; listed {
		return rollout.Fail(rollout.Retryable, rollout.CodeEngineError,
			fmt.Errorf("engine %s has unloaded adapter %s and still lists it", engine, name))
	}
	return nil
}

// verify lists what the engine serves: the adapter, from its path, of its base model.
func verify(ctx context.Context, c Client, a Adapter) ([]vllm.Model, error) {
	models, err := c.Models(ctx)
	if err != nil {
		return nil, fmt.Errorf("verify adapter %s: %w", a.Name, err)
	}
	root, loaded := adapterRoots(models)[a.Name]
	switch bases := baseModels(models); {
	case !a.fits(bases):
		return nil, rollout.Fail(rollout.Permanent, rollout.CodeAdapterConflict,
			fmt.Errorf("adapter %s is one of %s, and the engine serves %s", a.Name, a.Base, strings.Join(bases, ", ")))
	case !loaded:
		return nil, rollout.Fail(rollout.Retryable, rollout.CodeNotListed,
			fmt.Errorf("adapter %s was loaded, yet /v1/models does not list it", a.Name))
	case !samePath(root, a.Path):
		return nil, rollout.Fail(rollout.Permanent, rollout.CodeAdapterConflict,
			fmt.Errorf("adapter %s is served from %s, not from %s", a.Name, root, a.Path))
	}
	return models, nil
}

// advise adds what to change where the engine's own words do not say it, and keeps the failure's kind and code.
func advise(err error) error {
	text := strings.ToLower(err.Error())
	advice := ""
	switch code := rollout.CodeOf(err); {
	case code == codeDoesNotAct:
		advice = "if other engines serve it, restart this one; else compare model and LoRA scale with the trainer's"
	case code == rollout.CodeAdapterMissing:
		advice = "share the directory with the engine, and set adapters.path_prefix to where it is mounted there"
	case code != rollout.CodeBadAdapter:
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
