package buffer

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/store/buffer/pack"
)

// KeepEngines keeps what each engine did for a granted step: its record has it from then on, as long as it has the
// groups. A step that is not known is left alone.
func (s *Store) KeepEngines(
	ctx context.Context, run rollout.RunName, step rollout.Step, engines []enginestate.EngineView,
) error {
	if len(engines) == 0 {
		return nil
	}
	text, err := json.Marshal(engines)
	if err != nil {
		return fmt.Errorf("engines of step %d: %w", step, err)
	}
	packed, err := pack.Bytes(text)
	if err != nil {
		return fmt.Errorf("engines of step %d: %w", step, err)
	}
	return s.do(ctx, fmt.Sprintf("keep engines of step %d", step), enginesScript, run, int64(step), packed)
}
