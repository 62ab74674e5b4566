// Package savedgame reads the games of a run: the list of them, one game as its environment shows it, its turns with
// their tokens; or says why a game is not kept. Start reading at Reader.
package savedgame

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/game/environments"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/telemetry"
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

// eventsPage is how many events are read at once.
const eventsPage = 5_000

// notKept adds to why a game is not kept what the events tell: when, and how the game itself ended. What they do not
// tell, the reason says alone.
func (r *Reader) notKept(ctx context.Context, ref rollout.EpisodeRef, reason error) error {
	var dropped, ended telemetry.Event
	after := ""
	for {
		facts, err := r.Events.Facts(ctx, ref.Run, after, eventsPage,
			telemetry.KindOf(telemetry.GroupDropped{}), telemetry.KindOf(telemetry.EpisodeFailed{}))
		if err != nil || len(facts) == 0 {
			break
		}
		for _, f := range facts {
			after = f.ID
			e, err := f.Event()
			if err != nil {
				continue // of another version
			}
			if body, ok := e.Body.(telemetry.GroupDropped); ok && body.Seq == ref.Seq {
				dropped = e
			}
			if body, ok := e.Body.(telemetry.EpisodeFailed); ok && body.Ref == ref && body.Final {
				ended = e
			}
		}
	}
	text := reason.Error()
	if dropped.Body != nil {
		text += " at " + dropped.At.UTC().Format(time.RFC3339)
	}
	if body, ok := ended.Body.(telemetry.EpisodeFailed); ok {
		how := fmt.Sprintf("it failed with %s, attempt %d: %s", body.Code, body.Attempt, body.Failure)
		if body.Code == rollout.CodeCancelled {
			how = "it was cancelled, because its group needed it no more"
		}
		text += fmt.Sprintf("; %s (%s)", how, ended.At.UTC().Format(time.RFC3339))
	}
	return rollout.Refuse(rollout.NotRetained, "%s", text)
}
