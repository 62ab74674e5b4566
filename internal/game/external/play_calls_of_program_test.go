package external

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/game/episode"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
)

// told is a mail that tells a game one thing after the other, and keeps what is answered.
type told struct {
	stands   Standing // for who looks
	tells    []*Standing
	answered []string
	alive    int // how often the game was said to be played
}

func (m *told) Alive(context.Context, rollout.EpisodeRef) error {
	m.alive++
	return nil
}

func (m *told) Look(context.Context, Attempt, []byte) (Standing, error) {
	return m.stands, nil
}

var errSilent = errors.New("nothing more is told")

func (m *told) Await(_ context.Context, _ rollout.EpisodeRef, look func(*Standing) (bool, error)) error {
	for _, news := range append([]*Standing{nil}, m.tells...) {
		if more, err := look(news); err != nil || !more {
			return err
		}
	}
	return errSilent
}

func (m *told) News(rollout.EpisodeRef, string, Call, Answer) rollout.News { return rollout.News{} }

func (m *told) Answer(_ context.Context, _ Attempt, _ string, call Call, _ int, _ Answer, _ *Ending) (
	Standing, error) {
	m.answered = append(m.answered, call.Hash)
	m.stands.Calls = slices.DeleteFunc(slices.Clone(m.stands.Calls), func(c Call) bool { return c.Hash == call.Hash })
	return m.stands, nil
}

// What is told may be older than what the game has seen: then it says nothing, and takes back nothing.
func TestWhatIsToldLate(t *testing.T) {
	x, y, z := Call{Agent: "a", Hash: "x"}, Call{Agent: "a", Hash: "y"}, Call{Agent: "a", Hash: "z"}
	stands := func(posted int64, place int, calls ...Call) *Standing {
		return &Standing{Posted: posted, Lease: "one", Leased: true, Places: map[string]int{"a": place}, Calls: calls}
	}
	for name, tt := range map[string]struct {
		looks    *Standing
		tells    []*Standing
		asked    string // next; empty: nothing
		answered []string
	}{
		"news are asked":                   {looks: stands(4, 1), tells: []*Standing{stands(5, 1, z)}, asked: "z"},
		"an older call is not asked again": {looks: stands(4, 1), tells: []*Standing{stands(2, 0, x)}},
		"nor what was seen":                {looks: stands(4, 1), tells: []*Standing{stands(4, 1, z)}},
		"and the next news are": {
			looks: stands(4, 1), tells: []*Standing{stands(2, 0, x), stands(5, 1, z)}, asked: "z",
		},
		"nor is what was answered since": {
			looks: stands(4, 0, y), tells: []*Standing{stands(4, 0, y)}, answered: []string{"y"},
		},
		"a Redis that came back is news": {looks: stands(1, 1, z), asked: "z"},
		"what was answered is answered so": {
			looks: stands(4, 0), tells: []*Standing{stands(5, 0, y)}, answered: []string{"y"},
		},
		"and then what else waits is asked": {looks: stands(4, 1, y, z), asked: "z", answered: []string{"y"}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := DefaultConfig()
			mail := &told{stands: *tt.looks, tells: tt.tells}
			g := &game{cfg: &cfg, mail: mail, asked: Standing{Posted: 3}}
			g.Calls = map[string][]answered{"a": {{Hash: "y"}}}
			_, err := g.Await(t.Context(), rollout.EpisodeRef{}, 1, time.Hour)
			if tt.asked == "" != errors.Is(err, errSilent) {
				t.Fatalf("Await = %v", err)
			}
			if got := g.pending["a"].Hash; got != tt.asked {
				t.Errorf("asks %q, want %q", got, tt.asked)
			}
			if !slices.Equal(mail.answered, tt.answered) {
				t.Errorf("answered %q, want %q", mail.answered, tt.answered)
			}
			if len(g.Calls["a"]) != 1 {
				t.Errorf("the game has %d calls, want the one that was answered", len(g.Calls["a"]))
			}
		})
	}
}

// slow answers after a while.
type slow time.Duration

func (s slow) Complete(context.Context, rollout.Request) (rollout.Completion, error) {
	time.Sleep(time.Duration(s))
	return rollout.Completion{Text: "7", TokenIDs: []int32{7}, Logprobs: []float32{0}, FinishReason: "stop"}, nil
}

type unkept struct{}

func (unkept) Save(context.Context, rollout.Checkpoint) error { return nil }

// While engines answer, nobody looks after the game: it is said to be played, until they have.
func TestLongAnswersAreAwaited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mail := &told{stands: Standing{Lease: "one", Leased: true, Calls: []Call{{Agent: "agent", Hash: "x"}}}}
		env := &Env{cfg: DefaultConfig()}
		env.Use(mail)
		player := episode.Player{Environment: env, Policy: slow(18*time.Minute + time.Second), Journal: unkept{},
			Beat: func(int, string) {}, Now: time.Now}
		began := time.Now()
		_, _, err := player.Play(t.Context(), episode.Plan{Attempt: 1, Sampling: rollout.Sampling{MaxTokens: 16},
			Timeouts: runspec.Timeouts{Episode: rollout.Duration(time.Hour), Completion: rollout.Duration(time.Hour)},
		}, []byte(`{}`), nil)
		if !errors.Is(err, errSilent) || time.Since(began) < 18*time.Minute || !slices.Equal(mail.answered, []string{"x"}) {
			t.Fatalf("answered %q after %s: %v", mail.answered, time.Since(began), err)
		}
		if mail.alive != 270 {
			t.Errorf("said %d times in 18 minutes, want it every 4 seconds", mail.alive)
		}
	})
}
