package gameslots

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/millrace/millrace/internal/rollout"
)

// A world is a pool and runs that have games waiting for it. Each run asks with as many slots as it may, and a slot
// that it is given gets a game at once if one waits.
type world struct {
	*Pool
	waiting map[rollout.RunName]int
	playing []rollout.RunName // oldest first
}

func newWorld(size int) *world { return &world{New(size), map[rollout.RunName]int{}, nil} }

// played is how many games of each run are played.
func (w *world) played() map[rollout.RunName]int {
	n := map[rollout.RunName]int{}
	for _, run := range w.playing {
		n[run]++
	}
	return n
}

func (w *world) arrive(run rollout.RunName, games int) {
	if _, known := w.waiting[run]; !known {
		w.Wait(run)
	}
	w.waiting[run] += games
	w.giveAll()
}

// giveAll gives out all that can be given.
func (w *world) giveAll() {
	for again := true; again; {
		again = false
		for run, games := range w.waiting {
			for ; games > 0 && w.of(run).polls > 0; games-- {
				w.Play(run)
				w.playing = append(w.playing, run)
				w.waiting[run]--
				w.Wait(run)
				again = true
			}
		}
		for _, more := w.Next(); more; _, more = w.Next() {
			again = true
		}
	}
}

// end ends the oldest games.
func (w *world) end(n int) {
	for ; n > 0 && len(w.playing) > 0; n-- {
		w.Release(w.playing[0], true)
		w.playing = w.playing[1:]
		w.giveAll()
	}
}

func TestRunThatIsAloneGetsAllSlots(t *testing.T) {
	t.Parallel()
	w := newWorld(100)
	w.arrive("a", 5000)
	if got := w.played()["a"]; got != 100 {
		t.Errorf("%d games are played, want 100", got)
	}
	w.end(50)
	if got := w.played()["a"]; got != 100 {
		t.Errorf("%d games are played after some have ended, want 100 again", got)
	}
}

// A run that arrives gets its share at once, though none of the other's games ends.
func TestRunThatArrivesGetsItsShareAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(100)
	w.arrive("hog", 5000)
	w.arrive("b", 30)
	if got := w.played()["b"]; got != 30 {
		t.Errorf("b plays %d, want all 30", got)
	}
	w.arrive("c", 5000)
	if got := w.played()["c"]; got < 30 || got > 40 {
		t.Errorf("c plays %d, want about a third", got)
	}
	for i := range 40 {
		late := rollout.RunName(fmt.Sprintf("late-%d", i))
		w.arrive(late, 10)
		if w.played()[late] == 0 {
			t.Fatalf("%s plays nothing", late)
		}
	}
}

// Runs that always want more hold equal shares once the games of before have ended; what those that want little leave
// is shared by the others.
func TestSharesBecomeEqual(t *testing.T) {
	t.Parallel()
	w := newWorld(120)
	w.arrive("a", 100_000)
	w.arrive("b", 100_000)
	w.arrive("modest", 20)
	w.arrive("c", 100_000)
	for range 200 {
		w.end(5)
		for w.played()["modest"]+w.waiting["modest"] < 20 {
			w.arrive("modest", 1)
		}
	}
	played := w.played()
	if played["modest"] != 20 {
		t.Errorf("modest plays %d, want its 20", played["modest"])
	}
	for _, run := range []rollout.RunName{"a", "b", "c"} {
		if got := played[run]; got < 30 || got > 38 {
			t.Errorf("%s plays %d of %v, want about a third of 100", run, got, played)
		}
	}
}

// A run that goes behind takes no slot of another's: with or without it, as many of their games are played.
func TestRunBehindTakesNoSlotOfOthers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ trained, behind int }{{0, 25}, {40, 15}, {96, 1}, {5000, 1}} {
		p, played := New(100), map[rollout.RunName]int{}
		playAll := func() {
			for run, more := p.Next(); more; run, more = p.Next() {
				p.Play(run)
				played[run]++
			}
		}
		for range tt.trained {
			p.Wait("training")
		}
		playAll()
		for range 5000 {
			p.Behind("evaluation")
		}
		playAll()
		for range 200 {
			p.Wait("training")
		}
		playAll()
		if played["training"] != 100 || played["evaluation"] != tt.behind {
			t.Errorf("%d games to train on: %v, want %d of the evaluation", tt.trained, played, tt.behind)
		}
		for run, n := range played {
			for range n {
				p.Release(run, true)
			}
		}
		if p.used != 0 || p.usedBehind != 0 {
			t.Errorf("%d and %d slots are not given back", p.used, p.usedBehind)
		}
	}
}

// FuzzPool holds the laws against any order of arrivals and ends: games are bounded, no slot is idle that a run waits
// for, no run that has games waiting plays none, and one with less than its share is refused only when what is left is
// less than it has.
func FuzzPool(f *testing.F) {
	f.Add(uint64(1), uint8(10))
	f.Add(uint64(2), uint8(100))
	f.Add(uint64(3), uint8(0))
	f.Fuzz(func(t *testing.T, seed uint64, size uint8) {
		w := newWorld(int(size))
		limit := max(int(size), 1)
		rng := rand.New(rand.NewPCG(seed, 0))
		for range 300 {
			if rng.IntN(3) == 0 {
				w.arrive(rollout.RunName('a'+rune(rng.IntN(12))), 1+rng.IntN(3*limit))
			} else {
				w.end(1 + rng.IntN(limit))
			}
			played, total := w.played(), len(w.playing)
			if most := 2*limit + MaxPolls*len(w.runs); total > most {
				t.Fatalf("%d games are played, of at most %d: %v", total, most, played)
			}
			for run, games := range w.waiting {
				if games == 0 {
					continue
				}
				if total < limit || played[run] == 0 {
					t.Fatalf("%s has %d games waiting and plays %d, of %d played on %d slots", run, games, played[run], total, limit)
				}
				if mine := played[run]; mine < limit/len(played) && mine < 2*limit-total {
					t.Fatalf("%s plays %d of %d: less than its share, though there is room", run, mine, total)
				}
			}
		}
	})
}
