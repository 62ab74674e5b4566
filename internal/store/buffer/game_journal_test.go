package buffer_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	"github.com/millrace/millrace/internal/store/buffer"
)

// journals is what games in progress can rely on.
var journals = map[string]func(t *testing.T, rdb redis.UniversalClient){
	"an attempt goes on where the one before has come to": func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 9))
		f.queue(0, 0)
		first := playJournal(t, f, game(0, 1), 1)
		expect(t, "at the beginning", first.journal.Checkpoint(), nil)
		f.ok(first.answer("FRANCE"))
		f.ok(first.answer("ITALY"))
		f.ok(first.phase())
		expect(t, "a saved phase means that the group is played", f.counts(), steprecord.BufferCounts{InFlight: 1})
		f.ok(first.answer("FRANCE"))
		f.ok(first.phase())
		f.ok(first.answer("ITALY"))
		first.journal.Close()

		second := playJournal(t, f, game(0, 1), 2)
		expect(t, "checkpoint", *second.journal.Checkpoint(), first.now)
		expect(t, "answers", keys(second.journal.Answers()), map[string]string{"FRANCE": "FRANCE 1", "ITALY": "ITALY 2"})
		f.ok(second.phase())
		got, found, err := f.LoadCheckpoint(f.ctx, game(0, 1))
		f.ok(err)
		expect(t, "found", found, true)
		expect(t, "checkpoint", got, second.now)
		state, err := f.Game(f.ctx, game(0, 1))
		f.ok(err)
		expect(t, "game", string(state), string(second.now.Game))
		progress, err := f.Progress(f.ctx, run)
		f.ok(err)
		expect(t, "phases", len(progress), 1)
	},
	"what is lost with an attempt is answers that no phase has taken": func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 9))
		f.queue(0, 0)
		first := playJournal(t, f, game(0, 0), 1)
		f.ok(first.answer("FRANCE"))
		f.ok(first.phase())
		f.ok(first.answer("FRANCE")) // its process dies before it is sent, or after
		second := playJournal(t, f, game(0, 0), 2)
		expect(t, "checkpoint", *second.journal.Checkpoint(), first.now)
	},
	"a turn that is taken back is gone, and another one in its place": func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 9))
		f.queue(0, 0)
		first := playJournal(t, f, game(0, 0), 1)
		for range 2 {
			f.ok(first.answer("FRANCE"))
			f.ok(first.phase())
		}
		of := &first.now.Episode.Trajectories[0]
		of.Turns = slices.Clip(of.Turns[:1])
		f.ok(first.answer("FRANCE"))
		f.ok(first.phase())
		f.ok(first.answer("FRANCE"))
		f.ok(first.phase())
		second := playJournal(t, f, game(0, 0), 2)
		expect(t, "checkpoint", *second.journal.Checkpoint(), first.now)
		f.ok(second.end())
		episodes, err := f.Episodes(f.ctx, ref(0), 1)
		f.ok(err)
		expect(t, "turns", episodes[0].Trajectories[0].Turns, first.now.Episode.Trajectories[0].Turns)
	},
	"an attempt taken for dead writes nothing more": func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 9))
		f.queue(0, 0)
		zombie := playJournal(t, f, game(0, 0), 1)
		f.ok(zombie.phase())
		second := playJournal(t, f, game(0, 0), 2)
		f.refused(zombie.phase(), rollout.Fenced)
		f.refused(zombie.answer("FRANCE"), rollout.Fenced)
		f.refused(zombie.end(), rollout.Fenced)
		f.ok(second.phase())
		f.ok(second.end())
		_, err := f.OpenJournal(f.ctx, game(0, 0), 1)
		if err == nil {
			t.Error("a lower attempt opened the journal")
		}
		episodes, err := f.Episodes(f.ctx, ref(0), 1)
		f.ok(err)
		expect(t, "phases of the finished game", episodes[0].Phases, 2)
	},
	"news are told when their phase is kept, also in a journal that is begun again": func(t *testing.T,
		rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 9))
		f.queue(0, 0)
		heard := rdb.Subscribe(f.ctx, "news")
		defer func() { _ = heard.Close() }()
		_, err := heard.Receive(f.ctx) // it hears
		f.ok(err)
		first := playJournal(t, f, game(0, 0), 1)
		say := func(of *playedJournal, texts ...string) error {
			of.now.News = nil
			for _, text := range texts {
				of.now.News = append(of.now.News, rollout.News{Channel: "news", Text: text})
			}
			return of.phase()
		}
		f.ok(say(first, "one", "two"))
		f.ok(say(first))
		second := playJournal(t, f, game(0, 0), 2)
		f.refused(say(first, "of a dead one"), rollout.Fenced)
		f.ok(rdb.Del(f.ctx, "millrace:{demo/0/0}:journal").Err()) // the node that had it lost it
		f.ok(say(second, "three"))
		f.ok(say(second, "four"))
		for _, want := range []string{"one", "two", "three", "four"} {
			got, err := heard.ReceiveMessage(f.ctx)
			f.ok(err)
			expect(t, "news", got.Payload, want)
		}
	},
	"the first end stands": func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 9))
		f.queue(0, 0)
		first := playJournal(t, f, game(0, 0), 1)
		f.ok(first.answer("FRANCE"))
		f.ok(first.phase())
		f.ok(first.end())
		f.ok(first.end())
		second := playJournal(t, f, game(0, 0), 2)
		f.ok(second.end())
		f.refused(second.phase(), rollout.Fenced)
		f.body("demo/0/0/finished", telemetry.EpisodeFinished{}) // told once
		got, err := f.Episodes(f.ctx, ref(0), 2)
		f.ok(err)
		expect(t, "episodes", got, []rollout.Episode{first.now.Episode})
		state, err := f.Game(f.ctx, game(0, 0))
		f.ok(err)
		expect(t, "game", string(state), string(first.now.Game))
		begun, err := f.Begin(f.ctx, buffer.GameRef{EpisodeRef: game(0, 0)}, start, 3)
		f.ok(err)
		expect(t, "finished", begun.Finished, true)
	},
	"journals end with their group": func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 9))
		f.queue(0, 1)
		playing, finished := playJournal(t, f, game(0, 0), 1), playJournal(t, f, game(0, 1), 1)
		f.ok(playing.phase())
		f.ok(finished.phase())
		f.ok(finished.end())
		_, err := f.CommitGroup(f.ctx, group(0, 0))
		f.ok(err)
		f.refused(playing.phase(), rollout.Fenced)
		f.refused(playing.end(), rollout.Fenced)
		f.refused(playing.answer("FRANCE"), rollout.Fenced)
		f.gone("millrace:{demo/0/*}:journal")
		state, err := f.Game(f.ctx, game(0, 1))
		f.ok(err)
		expect(t, "game", string(state), string(finished.now.Game))

		dropped := playJournal(t, f, game(1, 0), 1)
		f.ok(dropped.phase())
		f.ok(dropped.phase())
		f.ok(dropped.phase())
		f.ok(f.Discard(f.ctx, ref(1), "cancelled"))
		f.departed(steprecord.LengthCount{Code: "cancelled", Groups: 1, ByLength: []int64{0, 0, 1}})
		f.refused(dropped.phase(), rollout.Fenced)
		_, err = f.OpenJournal(f.ctx, game(1, 0), 2)
		f.refused(err, rollout.Fenced)
		f.gone("millrace:{demo/1/*")
	},
	"finished games are kept as long as their group": func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 9))
		for step := range 4 {
			f.queue(step, step)
			of := playJournal(t, f, game(step, 0), 1)
			f.ok(of.phase())
			f.ok(of.end())
			_, err := f.CommitGroup(f.ctx, group(step, 0))
			f.ok(err)
			f.claim(step, 0)
			f.complete(step, 0)
		}
		kept, err := rdb.Keys(f.ctx, "millrace:{demo/*").Result()
		f.ok(err)
		slices.Sort(kept)
		expect(t, "kept", kept, []string{"millrace:{demo/2/0}:final", "millrace:{demo/3/0}:final"})
	},
	"games go on when Redis was emptied under their journals": func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 9))
		f.queue(0, 0)
		of := playJournal(t, f, game(0, 0), 1)
		f.ok(of.answer("FRANCE"))
		f.ok(of.phase())
		f.ok(rdb.FlushDB(f.ctx).Err())
		f.refused(of.phase(), rollout.NoSuchRun)
		f.ok(f.Open(f.ctx, spec(1, 9)))
		f.ok(of.answer("FRANCE"))
		f.ok(of.phase())
		f.ok(of.phase())
		expect(t, "counts", f.counts(), steprecord.BufferCounts{InFlight: 1})
		got, _, err := f.LoadCheckpoint(f.ctx, game(0, 0))
		f.ok(err)
		expect(t, "checkpoint", got, of.now)
		f.ok(rdb.Del(f.ctx, "millrace:{demo/0/0}:journal").Err()) // the node that had it lost it
		f.ok(of.end())
		episodes, err := f.Episodes(f.ctx, ref(0), 1)
		f.ok(err)
		expect(t, "episodes", episodes, []rollout.Episode{of.now.Episode})
	},
	"a journal nobody deletes is forgotten some time": func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 9))
		f.queue(0, 0)
		of := playJournal(t, f, game(0, 0), 1)
		for range 2 {
			left, err := rdb.TTL(f.ctx, "millrace:{demo/0/0}:journal").Result()
			f.ok(err)
			if left < 7*24*time.Hour {
				t.Errorf("it is forgotten in %v", left)
			}
			f.ok(of.phase())
		}
	},
}

func TestJournals(t *testing.T) {
	t.Parallel()
	conform(t, journals)
}

// Whatever is played and whoever dies, the next attempt finds the game after the last phase that was kept, and every
// answer that it finds is one that was given.
func TestRandomJournals(t *testing.T) {
	t.Parallel()
	for seed := range seeds(8) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
				rng := rand.New(rand.NewPCG(seed, 3))
				f := open(t, rdb, spec(1, 9))
				f.queue(0, 0)
				now, given := rollout.Checkpoint{}, map[string]bool{}
				for attempt := 1; attempt <= 12; attempt++ {
					of := playJournal(t, f, game(0, 0), attempt)
					if found := of.journal.Checkpoint(); found != nil {
						expect(t, "checkpoint", *found, now)
					}
					for agent, a := range of.journal.Answers() {
						if !given[agent+a.Key+a.Completion.Text] {
							t.Errorf("%s is said to have answered %q", agent, a.Completion.Text)
						}
					}
					for range rng.IntN(8) {
						switch rng.IntN(4) {
						case 0:
							f.ok(of.phase())
							now = of.now
						case 1:
							f.ok(rdb.ScriptFlush(f.ctx).Err()) // a Redis that was started again knows no scripts
						default:
							agent := []string{"FRANCE", "ITALY", "TURKEY"}[rng.IntN(3)]
							f.ok(of.answer(agent))
							last := of.last[agent]
							given[agent+last.Key+last.Completion.Text] = true
						}
					}
				}
			})
		})
	}
}

func keys(answers map[string]buffer.Answer) map[string]string {
	found := map[string]string{}
	for agent, a := range answers {
		found[agent] = a.Key
	}
	return found
}

// played is a game that is played into its journal.
type playedJournal struct {
	f       *fixture
	journal buffer.Journal
	rng     *rand.Rand
	now     rollout.Checkpoint
	last    map[string]buffer.Answer // of the phase
}

func playJournal(t testing.TB, f *fixture, ref rollout.EpisodeRef, attempt int) *playedJournal {
	t.Helper()
	_, err := f.Begin(f.ctx, buffer.GameRef{EpisodeRef: ref}, start.Add(time.Duration(attempt)*time.Minute), attempt)
	f.ok(err)
	j, err := f.OpenJournal(f.ctx, ref, attempt)
	f.ok(err)
	p := &playedJournal{f: f, journal: j, rng: rand.New(rand.NewPCG(uint64(attempt), 9)), last: map[string]buffer.Answer{},
		now: rollout.Checkpoint{Episode: rollout.Episode{Ref: ref, Trajectories: []rollout.Trajectory{}, StartedAt: start}}}
	if found := j.Checkpoint(); found != nil {
		p.now = *found
	}
	return p
}

// answer has an agent answer in the phase.
func (p *playedJournal) answer(agent string) error {
	text := newText(p.rng)
	a := buffer.Answer{Key: fmt.Sprintf("%s %d", agent, p.now.PhaseIndex), Completion: rollout.Completion{
		Text: fmt.Sprint(p.rng.Int()), PromptTokenIDs: text.tokens(30), TokenIDs: text.tokens(4), Logprobs: probs(p.rng, 4),
		FinishReason: rollout.FinishStop, Model: "m", Engine: "e", CachedTokens: -1}}
	p.last[agent] = a
	return p.journal.Answer(agent, a)
}

// phase finishes the phase with the answers that were given in it.
func (p *playedJournal) phase() error {
	next := p.now
	next.PhaseIndex++
	next.Game = fmt.Appendf(slices.Clone(p.now.Game), "phase %d;", next.PhaseIndex)
	next.Episode.Phases = next.PhaseIndex
	next.Episode.Trajectories = slices.Clone(p.now.Episode.Trajectories)
	for _, agent := range []string{"AUSTRIA", "ENGLAND", "FRANCE", "GERMANY", "ITALY", "RUSSIA", "TURKEY"} {
		if a, ok := p.last[agent]; ok {
			record(&next.Episode, agent, a.Completion)
		}
	}
	err := p.journal.Phase(p.f.ctx, next)
	var refusal *rollout.Refusal
	if err == nil || !errors.As(err, &refusal) || refusal.Code != rollout.NoSuchRun {
		p.now, p.last = next, map[string]buffer.Answer{}
	}
	return err
}

func record(ep *rollout.Episode, agent string, c rollout.Completion) {
	at := slices.IndexFunc(ep.Trajectories, func(t rollout.Trajectory) bool { return t.Agent == agent })
	if at < 0 {
		at = len(ep.Trajectories)
		ep.Trajectories = append(ep.Trajectories, rollout.Trajectory{ID: ep.Ref.TrajectoryID(agent),
			Sample: ep.Ref.Sample, Agent: agent})
	}
	of := &ep.Trajectories[at]
	of.Turns = append(slices.Clip(of.Turns), rollout.Turn{Phase: "S1901M", PromptTokenIDs: c.PromptTokenIDs,
		TokenIDs: c.TokenIDs, Logprobs: c.Logprobs, Engine: c.Engine, FinishReason: c.FinishReason, Text: c.Text})
}

// end finishes the game.
func (p *playedJournal) end() error {
	p.now.Episode.FinishedAt = start.Add(time.Hour)
	p.now.Episode.Trajectories = slices.Clone(p.now.Episode.Trajectories)
	for i := range p.now.Episode.Trajectories {
		p.now.Episode.Trajectories[i].Reward = float64(i + 1)
	}
	return p.journal.End(p.f.ctx, p.now.Episode, p.now.Game)
}

// gone checks that no key is left of a kind.
func (f *fixture) gone(pattern string) {
	f.t.Helper()
	left, err := f.rdb.Keys(f.ctx, pattern).Result()
	f.ok(err)
	expect(f.t, pattern, len(left), 0)
}
