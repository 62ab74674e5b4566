package buffer

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// GameRef names a game of a group, or the warm-up that the group's games begin with.
type GameRef struct {
	rollout.EpisodeRef
	WarmUp bool // then the sample is not looked at
}

// Attempt is one attempt at a game, as the buffer knows it.
type Attempt struct {
	Number   int  // grows from each attempt to the next, over resets too; what a lower one saves is refused
	Counted  int  // attempts so far that are held against the game, this one included
	Excused  int  // attempts so far that are not
	Finished bool // an earlier attempt has finished the game; the other fields are zero
}

// Begin begins an attempt: from now on those that started before it are refused as Fenced whatever they save. It is
// Fenced itself when a later one has begun or the group is over. It is known by when Temporal started it and by its
// number there, so that beginning it again changes nothing.
func (s *Store) Begin(ctx context.Context, game GameRef, started time.Time, attempt int) (Attempt, error) {
	r, err := s.evalGroup(ctx, beginScript, game.GroupRef, game.field(), started.UnixMicro(), attempt)
	if err != nil {
		return Attempt{}, fmt.Errorf("begin %s: %w", game.EpisodeRef, err)
	}
	if !r.ok() {
		return Attempt{}, episodeOver(game.EpisodeRef, attempt, r)
	}
	return Attempt{Number: int(r.int(1)), Counted: int(r.int(2)), Excused: int(r.int(3)), Finished: r.str(4) != ""}, nil
}

// Excuse takes back that an attempt at a game is held against it: it ended for no reason of the game's. Another one may
// have begun since. Excusing it again, or one before the latest that was excused, changes nothing.
func (s *Store) Excuse(ctx context.Context, game GameRef, number int) error {
	if _, err := s.evalGroup(ctx, excuseScript, game.GroupRef, game.field(), number); err != nil {
		return fmt.Errorf("excuse attempt %d at %s: %w", number, game.EpisodeRef, err)
	}
	return nil
}

func (g GameRef) field() string {
	if g.WarmUp {
		return "warm-up"
	}
	return strconv.Itoa(g.Sample)
}
