// Package savedgame reads the games of a run: the list of them, one game as its environment shows it, its turns with
// their tokens; or says why a game is not kept. Start reading at Reader.
package savedgame

import (
	"context"
	"encoding/json"

	"github.com/millrace/millrace/internal/game/environments"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/store/buffer"
	"github.com/millrace/millrace/internal/store/eventstore"
)

// Reader reads games from the buffer; for games that are gone, it reads their fate from the events.
type Reader struct {
	Buffer    *buffer.Store
	Events    *store.Store
	Tokenizer Tokenizer // nil: turns are shown without the text of their prompts

	histories histories
}

// Game is one game of a run, as its environment displays it.
func (r *Reader) Game(ctx context.Context, ref rollout.EpisodeRef) (json.RawMessage, error) {
	status, err := r.Buffer.Status(ctx, ref.Run)
	if err != nil {
		return nil, err
	}
	game, err := r.Buffer.Game(ctx, ref)
	if rollout.Refused(err, rollout.NotRetained) {
		return nil, r.notKept(ctx, ref, err)
	}
	if err != nil {
		return nil, err
	}
	return environments.View(status.Spec.Environment.Kind, game, ref.String())
}
