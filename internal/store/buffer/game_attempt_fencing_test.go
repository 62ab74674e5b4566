package buffer_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/store/buffer"
)

// An attempt keeps those before it from saving as soon as it has begun, whichever number they have in Temporal,
// which counts again after a reset; and each is held against the game unless it is excused.
func TestAttemptFencesFromItsBeginning(t *testing.T) {
	t.Parallel()
	onBoth(t, attemptsFence)
}

func attemptsFence(t *testing.T, rdb redis.UniversalClient) {
	s := attemptStore(t, rdb)
	game := buffer.GameRef{EpisodeRef: rollout.EpisodeRef{GroupRef: rollout.GroupRef{Run: "r", Seq: 0}, Sample: 1}}
	at := func(sec int) time.Time { return time.Unix(1_790_000_000+int64(sec), 0) }
	begin := func(sec, attempt int) buffer.Attempt {
		t.Helper()
		got, err := s.Begin(t.Context(), game, at(sec), attempt)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	save := func(number int) error {
		return s.SaveCheckpoint(t.Context(), game.EpisodeRef, number, rollout.Checkpoint{})
	}

	first := begin(0, 1)
	if again := begin(0, 1); first != (buffer.Attempt{Number: 1, Counted: 1}) || again != first {
		t.Errorf("begun %+v, and again %+v", first, again)
	}
	second := begin(10, 2)
	if err := save(first.Number); !rollout.Refused(err, rollout.Fenced) {
		t.Errorf("the first attempt saves after the second has begun: %v", err)
	}
	if _, err := s.Begin(t.Context(), game, at(0), 1); !rollout.Refused(err, rollout.Fenced) {
		t.Errorf("the first attempt begins after the second: %v", err)
	}
	if _, err := s.Begin(t.Context(), game, at(10), 1); !rollout.Refused(err, rollout.Fenced) {
		t.Errorf("one of the same moment that Temporal counts before it begins: %v", err)
	}
	if err := s.SaveEpisode(t.Context(), game.EpisodeRef, first.Number, rollout.Episode{Ref: game.EpisodeRef},
		nil); !rollout.Refused(err, rollout.Fenced) {
		t.Errorf("the first attempt finishes after the second has begun: %v", err)
	}
	for _, number := range []int{first.Number, second.Number, second.Number, first.Number} { // each is excused once
		if err := s.Excuse(t.Context(), game, number); err != nil {
			t.Fatal(err)
		}
	}
	reset := begin(20, 1)
	if reset != (buffer.Attempt{Number: 3, Counted: 1, Excused: 2}) {
		t.Errorf("after a reset: %+v", reset)
	}
	if err := save(second.Number); !rollout.Refused(err, rollout.Fenced) {
		t.Errorf("the second attempt saves after the reset: %v", err)
	}
	if err := save(reset.Number); err != nil {
		t.Errorf("the one after the reset: %v", err)
	}
	if err := s.SaveEpisode(t.Context(), game.EpisodeRef, reset.Number, rollout.Episode{Ref: game.EpisodeRef},
		nil); err != nil {
		t.Errorf("the one after the reset finishes: %v", err)
	}
	if late := begin(30, 2); !late.Finished {
		t.Errorf("one that begins after the end: %+v", late)
	}
	if warmUp, err := s.Begin(t.Context(), buffer.GameRef{EpisodeRef: game.EpisodeRef, WarmUp: true}, at(40),
		1); err != nil || warmUp.Number != 1 {
		t.Errorf("a warm-up: %+v %v", warmUp, err)
	}
}

// A game that a version without beginnings has played goes on with the next number.
func TestAttemptGoesOnAfterOneOfAnEarlierVersion(t *testing.T) {
	t.Parallel()
	s := attemptStore(t, embedded(t))
	game := buffer.GameRef{EpisodeRef: rollout.EpisodeRef{GroupRef: rollout.GroupRef{Run: "r", Seq: 0}}}
	if err := s.SaveCheckpoint(t.Context(), game.EpisodeRef, 3, rollout.Checkpoint{}); err != nil {
		t.Fatal(err)
	}
	got, err := s.Begin(t.Context(), game, time.Unix(1_790_000_000, 0), 4)
	if err != nil || got != (buffer.Attempt{Number: 4, Counted: 4}) {
		t.Errorf("%+v %v, want number 4", got, err)
	}
}

func attemptStore(t *testing.T, rdb redis.UniversalClient) *buffer.Store {
	t.Helper()
	s := buffer.New(rdb, buffer.Options{})
	spec := runspec.Spec{Name: "r", Steps: 1, Buffer: runspec.BufferSpec{Depth: 1, GroupsPerStep: 1,
		OnStale: runspec.DropStale}}
	if err := s.Open(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Queue(t.Context(), rollout.GroupRef{Run: "r"}, []byte("s"), 0, time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	return s
}
