package workload_test

import (
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/simulate/sim/workload"
)

func recordedRef(seq, sample int) rollout.EpisodeRef {
	return rollout.EpisodeRef{GroupRef: rollout.GroupRef{Run: "r", Seq: rollout.GroupSeq(seq)}, Sample: sample}
}

func someRecordedGames() *workload.Recorded {
	game := func(phases int, requests, prompt, output, cached int64) workload.RecordedGame {
		return workload.RecordedGame{Phases: phases, Requests: requests, Prompt: prompt, Output: output, Cached: cached,
			Env: time.Duration(phases) * time.Second, Slowest: 1.3}
	}
	return &workload.Recorded{Spread: 0.3, Growth: 7, Groups: []workload.RecordedGroup{
		{Seq: 0, Base: true, Games: []workload.RecordedGame{game(1, 1, 100, 1, 0), game(1, 2, 201, 9, 64)}},
		{Seq: 1, Games: []workload.RecordedGame{game(5, 30, 14_000, 800, 11_000), game(9, 44, 21_007, 1_303, 16_001)}},
		{Seq: 3, Games: []workload.RecordedGame{game(7, 7, 70_000, 7_000, 0)}, ZeroVariance: true},
	}}
}

// sumsOf is what a record would say of a game.
func sumsOf(g workload.Game) (sums workload.RecordedGame) {
	for _, p := range g.Phases {
		sums.Phases++
		sums.Env += p.Env
		for _, t := range p.Turns {
			sums.Requests++
			sums.Prompt, sums.Output = sums.Prompt+int64(t.Prompt), sums.Output+int64(t.Output)
			for _, shared := range t.Shared {
				sums.Cached += int64(shared.Tokens)
			}
		}
	}
	return sums
}

// TestRecordedGamesAddUp: a recorded game's turns have the recorded sums, cached tokens to a block of each turn.
func TestRecordedGamesAddUp(t *testing.T) {
	t.Parallel()
	games := someRecordedGames()
	games.SpreadAnswers(1.1)
	for _, group := range games.Groups {
		for sample, want := range group.Games {
			game := games.Game(recordedRef(int(group.Seq), sample))
			got := sumsOf(game)
			if got.Phases != want.Phases || got.Requests != want.Requests || got.Prompt != want.Prompt ||
				got.Output != want.Output || got.Env != want.Env || got.Cached > want.Cached ||
				got.Cached < want.Cached-16*want.Requests {
				t.Errorf("group %d, sample %d: got %+v, want %+v", group.Seq, sample, got, want)
			}
			for _, p := range game.Phases {
				for _, turn := range p.Turns {
					if turn.Prompt < 1 || turn.Output < 1 || turn.Agent >= game.Agents ||
						len(turn.Shared) > 0 && turn.Shared[0].Tokens >= turn.Prompt {
						t.Errorf("group %d, sample %d: an impossible turn: %+v", group.Seq, sample, turn)
					}
				}
			}
			if again := games.Game(recordedRef(int(group.Seq), sample)); !reflect.DeepEqual(again, game) {
				t.Errorf("group %d, sample %d is another game the second time", group.Seq, sample)
			}
		}
	}
}

// TestAnswersOfAPhaseDiffer: as much as the slowest requests of the recorded game's phases did.
func TestAnswersOfAPhaseDiffer(t *testing.T) {
	t.Parallel()
	games := someRecordedGames()
	games.SpreadAnswers(1)
	game := games.Game(recordedRef(1, 1))
	longest := 0.0
	for _, p := range game.Phases {
		most := 0
		for _, turn := range p.Turns {
			most = max(most, turn.Output)
		}
		longest += float64(most) / float64(len(game.Phases))
	}
	if ratio := longest / (1303.0 / 44); math.Abs(ratio-1.3) > 0.03 {
		t.Errorf("the longest answers are %.2f times the mean one, want 1.3", ratio)
	}
}

// TestGamesBeyondTheRecordAreDrawnFromIt: never from those of the base model, and others with another seed.
func TestGamesBeyondTheRecordAreDrawnFromIt(t *testing.T) {
	t.Parallel()
	games, other := someRecordedGames(), someRecordedGames()
	other.Seed = 1
	seen, differ := map[int64]bool{}, false
	for seq := 4; seq < 200; seq++ {
		for sample := range 3 {
			got := sumsOf(games.Game(recordedRef(seq, sample)))
			seen[got.Requests] = true
			differ = differ || sumsOf(other.Game(recordedRef(seq, sample))).Requests != got.Requests
		}
	}
	if want := map[int64]bool{30: true, 44: true, 7: true}; !reflect.DeepEqual(seen, want) || !differ {
		t.Errorf("got games of %v turns, want %v; another seed draws others: %v", seen, want, differ)
	}
	if !games.ZeroVariance(rollout.GroupRef{Seq: 3}) || games.ZeroVariance(rollout.GroupRef{Seq: 1}) {
		t.Error("group 3 alone has no reward variance")
	}
}
