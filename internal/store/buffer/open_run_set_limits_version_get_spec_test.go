package buffer_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/store/buffer"
	"github.com/millrace/millrace/internal/store/eventstore"
	"github.com/millrace/millrace/internal/store/eventstore/delivery"
)

// runs is what holds of runs as a whole.
var runs = map[string]func(t *testing.T, rdb redis.UniversalClient){
	"a run is opened once": func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(2, 9))
		changed := spec(2, 9).Buffer
		changed.GroupsPerStep = 1
		f.ok(f.SetLimits(f.ctx, run, changed, 9, 0))
		f.ok(f.Open(f.ctx, spec(2, 9)))
		f.ready(0, 0)
		expect(t, "the changed limit still holds", seqs(f.claim(0, 0)), []int{0})
		err := f.Open(f.ctx, spec(2, 10))
		f.refused(err, rollout.Conflict)
		expect(t, "the key that differs is named", strings.Contains(err.Error(), "which differs in steps;"), true)
		bad := spec(2, 9)
		bad.Name = "No Name"
		f.refused(f.Open(f.ctx, bad), rollout.Invalid)
		bad = spec(0, 9)
		f.refused(f.Open(f.ctx, bad), rollout.Invalid)
	},
	"runs are listed with their status": func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(2, 9))
		other := spec(1, 3)
		other.Name = "another"
		f.ok(f.Open(f.ctx, other))
		status := runstatus.RunStatus{
			Spec: other, State: runstatus.RunPaused, Reason: "operator", StartedAt: start, NextStep: 2, PolicyVersion: 2,
			Policies: []runstatus.Policy{{Version: 2, Adapter: "another-v2", State: runstatus.PolicyServing,
				PublishedAt: start}},
			Launched: 7, Failures: map[rollout.Code]int64{"timeout": 1},
		}
		f.ok(f.SaveStatus(f.ctx, status, 0))
		got, err := f.Runs(f.ctx)
		f.ok(err)
		expect(t, "runs", got, []runstatus.RunStatus{status, {Spec: spec(2, 9), State: runstatus.RunStarting}})
		one, err := f.Status(f.ctx, "another")
		f.ok(err)
		expect(t, "status", one, status)
	},
	"an unknown run is refused everywhere": func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(2, 9))
		f.ok(f.Delete(f.ctx, run))
		for name, call := range map[string]func() error{
			"SetLimits":  func() error { return f.SetLimits(f.ctx, run, spec(2, 9).Buffer, 9, 0) },
			"SetVersion": func() error { return f.SetVersion(f.ctx, run, 1, 0) },
			"SaveStatus": func() error { return f.SaveStatus(f.ctx, runstatus.RunStatus{Spec: spec(2, 9)}, 0) },
			"Status":     func() error { _, err := f.Status(f.ctx, run); return err },
			"Queue":      func() error { _, err := f.Queue(f.ctx, ref(0), nil, 0, start); return err },
			"Start":      func() error { return f.Start(f.ctx, ref(0)) },
			"Commit":     func() error { _, err := f.CommitGroup(f.ctx, group(0, 0)); return err },
			"Discard":    func() error { return f.Discard(f.ctx, ref(0), "x") },
			"Release":    func() error { _, err := f.Release(f.ctx, ref(0), "x"); return err },
			"Counts":     func() error { _, err := f.Counts(f.ctx, run); return err },
			"Account":    func() error { _, err := f.Account(f.ctx, run); return err },
			"Departures": func() error { _, err := f.Departures(f.ctx, run); return err },
			"Progress":   func() error { _, err := f.Progress(f.ctx, run); return err },
			"Checkpoint": func() error { return f.SaveCheckpoint(f.ctx, game(0, 0), 1, checkpoint(1, "a")) },
			"Episode":    func() error { return f.SaveEpisode(f.ctx, game(0, 0), 1, rollout.Episode{}, nil) },
			"Game":       func() error { _, err := f.Game(f.ctx, game(0, 0)); return err },
			"Attach":     func() error { _, _, err := f.Attach(f.ctx, run, nil); return err },
			"Claim":      func() error { _, err := f.Claim(f.ctx, run, 0, 0, buffer.Share{}); return err },
			"Complete": func() error {
				_, _, err := f.Complete(f.ctx, run, 0, 0, report(0), steprecord.FleetView{})
				return err
			},
			"Steps": func() error { _, err := f.Steps(f.ctx, run, 0, 1); return err },
			"Step":  func() error { _, err := f.Step(f.ctx, run, 0); return err },
		} {
			if err := call(); !rollout.Refused(err, rollout.NoSuchRun) {
				t.Errorf("%s: %v", name, err)
			}
		}
	},
	"a deleted run leaves nothing behind": func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 99))
		for step := range 5 {
			f.ready(0, step)
			f.claim(step, 0)
			f.complete(step, 0)
		}
		f.ready(0, 5, 6)
		f.claim(5, 0)
		f.queue(7, 9)
		f.ok(f.SaveCheckpoint(f.ctx, game(8, 0), 1, checkpoint(1, "a")))
		f.ok(f.SaveEpisode(f.ctx, game(8, 1), 1, rollout.Episode{}, []byte("end")))
		f.ok(playJournal(t, f, game(8, 12), 2).phase())
		f.ok(playJournal(t, f, game(9, 0), 1).phase())
		f.queue(10, 10)
		finished := playJournal(t, f, game(10, 0), 1)
		f.ok(finished.phase())
		f.ok(finished.end())
		f.ok(playJournal(t, f, game(10, 1), 1).phase())
		_, err := f.CommitGroup(f.ctx, group(10, 0))
		f.ok(err)
		f.ok(f.Discard(f.ctx, ref(9), "x"))
		f.ok(f.SaveStatus(f.ctx, runstatus.RunStatus{Spec: spec(1, 99), State: runstatus.RunRunning}, 0))
		for _, others := range []string{"external:open", "external:seen", "external:game:8-12", "external:game:10-1",
			"tokens", "vllm", "older"} {
			f.ok(rdb.HSet(f.ctx, "millrace:{demo}:"+others, "x", 1).Err())
		}
		f.ok(f.Delete(f.ctx, run))
		f.ok(f.Delete(f.ctx, run))
		list, err := f.Runs(f.ctx)
		f.ok(err)
		expect(t, "runs", len(list), 0)
		deleting, err := f.Deleting(f.ctx)
		f.ok(err)
		expect(t, "runs to purge", deleting, []rollout.RunName{run})
		f.ok(f.Purge(f.ctx, run))
		f.ok(f.Purge(f.ctx, run))
		f.ok(eraseEvents(f.ctx, rdb))
		left, err := rdb.Keys(f.ctx, "*").Result()
		f.ok(err)
		slices.Sort(left)
		expect(t, "what is kept so that nobody brings the run back", left, []string{"millrace:lives", "millrace:{demo}:gone"})
	},
	"a large run is purged in portions": func(t *testing.T, rdb redis.UniversalClient) {
		if testing.Short() {
			t.Skip("trains 250 steps, one call after another")
		}
		f := open(t, rdb, spec(1, 999))
		for step := range 250 {
			f.ready(0, step)
			f.claim(step, 0)
			f.complete(step, 0)
		}
		f.queue(250, 480)
		f.ok(f.Delete(f.ctx, run))
		interrupted, cancel := context.WithCancel(f.ctx)
		cancel()
		if err := f.Purge(interrupted, run); err == nil {
			t.Error("it was not interrupted")
		}
		f.ok(f.Purge(f.ctx, run))
		f.ok(eraseEvents(f.ctx, rdb))
		left, err := rdb.Keys(f.ctx, "*").Result()
		f.ok(err)
		expect(t, "keys", len(left), 2)
	},
	"a name that is used again is another run": func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 9))
		f.attach(-1)
		f.ready(0, 0)
		f.claim(0, 1)
		f.queue(1, 1)
		f.ok(f.Delete(f.ctx, run))
		id, err := f.ID(f.ctx, run)
		f.ok(err)
		expect(t, "id", id, "demo@2")
		again := spec(1, 9)
		again.Name = id
		f.ok(f.Open(f.ctx, again))
		f.refused(f.Open(f.ctx, spec(1, 9)), rollout.RunOver) // who still plays for the one before
		f.refused(f.SaveCheckpoint(f.ctx, game(1, 0), 1, checkpoint(1, "late")), rollout.NoSuchRun)
		_, err = f.CommitGroup(f.ctx, group(1, 0))
		f.refused(err, rollout.NoSuchRun)
		_, err = f.Claim(f.ctx, id, 0, 1, buffer.Share{}) // the trainer of before
		f.refused(err, rollout.Fenced)
		account, err := f.Account(f.ctx, id)
		f.ok(err)
		expect(t, "groups of the run before", account.Launched+int64(account.ClaimedTo), 0)
		f.ok(f.Purge(f.ctx, run))
		_, err = f.Status(f.ctx, id)
		f.ok(err)

		f.ok(f.Delete(f.ctx, id))
		_, err = f.ID(f.ctx, id)
		f.refused(err, rollout.NoSuchRun)
		_, err = f.ID(f.ctx, "demo@9")
		f.refused(err, rollout.NoSuchRun)
		third, err := f.ID(f.ctx, run)
		f.ok(err)
		expect(t, "id", third, "demo@3")
	},
	"deleting what is not there leaves the name as it is": func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 9))
		f.ok(f.Delete(f.ctx, "nobody"))
		id, err := f.ID(f.ctx, "nobody")
		f.ok(err)
		expect(t, "id", id, "nobody")
	},
	"no trainer of a name ever has the generation of another one": func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 9))
		f.Store = buffer.New(rdb, buffer.Options{Now: func() time.Time { return start }})
		latest := rollout.TrainerGeneration(0)
		attach := func(id rollout.RunName) {
			t.Helper()
			for range 100 { // crashing in a loop, while the clock stands still
				generation, _, err := f.Attach(f.ctx, id, nil)
				f.ok(err)
				if generation <= latest {
					t.Fatalf("%s: generation %d was given before, up to %d", id, generation, latest)
				}
				latest = generation
			}
		}
		attach(run)
		forgotten, err := f.Forget(f.ctx, run) // its start was interrupted, and is corrected
		f.ok(err)
		expect(t, "forgotten", forgotten, true)
		f.ok(f.Open(f.ctx, spec(2, 9)))
		attach(run)
		for id := run; id.Life() < 5; {
			f.ok(f.Delete(f.ctx, id))
			if id.Life()%2 == 0 {
				f.ok(f.Purge(f.ctx, id))
			}
			id, err = f.ID(f.ctx, run)
			f.ok(err)
			again := spec(1, 9)
			again.Name = id
			f.ok(f.Open(f.ctx, again))
			attach(id)
		}
	},
	"generations begin above those of an earlier life, whatever Redis has lost of it": func(t *testing.T,
		rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 9))
		f.ok(rdb.HSet(f.ctx, "millrace:lives", "other", "2 1767323045").Err())
		again := spec(1, 9)
		again.Name = "other@2"
		f.ok(f.Open(f.ctx, again))
		generation, _, err := f.Attach(f.ctx, again.Name, nil)
		f.ok(err)
		if int64(generation) < start.Unix() {
			t.Errorf("generation %d", generation)
		}
	},
	"a Redis that has lost everything learns a name's life from its run": func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 9))
		again := spec(1, 9)
		again.Name = "other@4"
		f.ok(f.Open(f.ctx, again))
		id, err := f.ID(f.ctx, "other")
		f.ok(err)
		expect(t, "id", id, "other@4")
	},
	"a run of an earlier life that was not deleted is found by its number": func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 9))
		again := spec(1, 9)
		again.Name = "demo@2"
		f.ok(f.Open(f.ctx, again))
		id, err := f.ID(f.ctx, "demo@1")
		f.ok(err)
		expect(t, "id", id, run)
		f.ok(f.Delete(f.ctx, id))
		_, err = f.ID(f.ctx, "demo@1")
		f.refused(err, rollout.NoSuchRun)
		id, err = f.ID(f.ctx, run)
		f.ok(err)
		expect(t, "id", id, "demo@2")
	},
	"a run named fleet has no keys of the fleet": func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 9))
		id, err := f.ID(f.ctx, "fleet")
		f.ok(err)
		expect(t, "id", id, "fleet@1")
	},
	"only runs that go on are active": func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(2, 9))
		other := spec(1, 3)
		other.Name = "another"
		f.ok(f.Open(f.ctx, other))
		f.ok(f.SaveStatus(f.ctx, runstatus.RunStatus{Spec: other, State: runstatus.RunStopped}, 0))
		for range 2 {
			active, err := f.Active(f.ctx)
			f.ok(err)
			expect(t, "active runs", len(active), 1)
			f.ok(rdb.Del(f.ctx, "{millrace:runs}:ended").Err()) // as if a version had ended it that noted nothing
		}
	},
	"the keys of a run are in one slot": func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 9))
		f.ready(0, 0)
		f.claim(0, 0)
		f.queue(1, 2)
		f.ok(f.Discard(f.ctx, ref(2), "x"))
		keys, err := rdb.Keys(f.ctx, "*{*").Result()
		f.ok(err)
		index := func(key string) bool { return strings.HasPrefix(key, "{millrace:runs}:") }
		keys = slices.DeleteFunc(keys, index)
		all, err := rdb.Keys(f.ctx, "*").Result()
		f.ok(err)
		all = slices.DeleteFunc(all, index)
		expect(t, "keys without a tag: the index of runs", len(all)-len(keys), 1)
		tagged, err := rdb.Keys(f.ctx, "millrace:{demo}:*").Result()
		f.ok(err)
		expect(t, "keys with the run's tag", len(tagged), len(keys))
		f.ok(playJournal(t, f, game(1, 3), 1).phase())
		ofGames, err := rdb.Keys(f.ctx, "millrace:{demo/1/3}:*").Result()
		f.ok(err)
		expect(t, "keys with the tag of a game", ofGames, []string{"millrace:{demo/1/3}:journal"})
	},
	"two runs do not meet": func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 9))
		other := spec(1, 9)
		other.Name = "demo2"
		f.ok(f.Open(f.ctx, other))
		f.ready(0, 0)
		_, err := f.Claim(f.ctx, "demo2", 0, 0, buffer.Share{})
		f.refused(err, rollout.NotReady)
		f.ok(f.Delete(f.ctx, "demo2"))
		expect(t, "counts", f.counts(), steprecord.BufferCounts{Ready: 1})
	},
}

func TestRuns(t *testing.T) {
	t.Parallel()
	conform(t, runs)
}

func TestALostConnectionIsRetryable(t *testing.T) {
	t.Parallel()
	// A port that the kernel gives away might be another test's by now.
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialTimeout: time.Minute, DialerRetries: 1})
	t.Cleanup(func() { _ = rdb.Close() })
	s := buffer.New(rdb, buffer.Options{})
	ctx := context.Background()
	for name, call := range map[string]func() error{
		"Claim":   func() error { _, err := s.Claim(ctx, run, 0, 0, buffer.Share{}); return err },
		"Commit":  func() error { _, err := s.CommitGroup(ctx, group(0, 0)); return err },
		"Status":  func() error { _, err := s.Status(ctx, run); return err },
		"Runs":    func() error { _, err := s.Runs(ctx); return err },
		"Load":    func() error { _, _, err := s.LoadCheckpoint(ctx, game(0, 0)); return err },
		"Steps":   func() error { _, err := s.Steps(ctx, run, 0, 0); return err },
		"Delete":  func() error { return s.Delete(ctx, run) },
		"Ping":    func() error { return s.Ping(ctx) },
		"Records": func() error { _, err := s.Step(ctx, run, 0); return err },
	} {
		err := call()
		var network *net.OpError
		if !rollout.Refused(err, rollout.Unavailable) || rollout.KindOf(err) != rollout.Retryable ||
			!errors.As(err, &network) {
			t.Errorf("%s: %v", name, err)
		}
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := s.Counts(cancelled, run); !errors.Is(err, context.Canceled) || rollout.Refused(err, rollout.Unavailable) {
		t.Errorf("a cancelled call: %v", err)
	}
}

// What a run said of itself comes late, from a worker that was stopped meanwhile: it brings back neither a run that
// has ended nor its old limits. What is said in the place of a workflow that is gone comes after all that it said, as
// does what the resumed run says.
func TestLateMirrorChangesNothing(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(2, 9))
		mirror := func(groups int, state runstatus.RunState, at int64) {
			t.Helper()
			s := spec(groups, 9)
			f.ok(f.SetLimits(f.ctx, run, s.Buffer, 9, at))
			f.ok(f.SaveStatus(f.ctx, runstatus.RunStatus{Spec: s, State: state}, at))
		}
		mirror(2, runstatus.RunRunning, 0)
		mirror(1, runstatus.RunRunning, 2)
		f.ready(0, 0, 1)
		for _, late := range []int64{0, 1} {
			mirror(2, runstatus.RunRunning, late)
		}
		expect(t, "the batch by the latest limits", seqs(f.claim(0, 0)), []int{0})
		mirror(1, runstatus.RunStopped, 3)
		mirror(1, runstatus.RunStopped, 3) // retried
		mirror(1, runstatus.RunRunning, 2)
		status, err := f.Status(f.ctx, run)
		f.ok(err)
		expect(t, "state", status.State, runstatus.RunStopped)
		_, err = f.Claim(f.ctx, run, 1, 0, buffer.Share{})
		f.refused(err, rollout.RunOver)

		is := func(what string, want runstatus.RunState) {
			t.Helper()
			status, err := f.Status(f.ctx, run)
			f.ok(err)
			expect(t, what, status.State, want)
		}
		f.ok(f.SaveStatus(f.ctx, runstatus.RunStatus{Spec: spec(1, 9), State: runstatus.RunLost}, buffer.InItsPlace))
		mirror(1, runstatus.RunRunning, 9)
		is("state after its lost workflow spoke late", runstatus.RunLost)
		_, err = f.Claim(f.ctx, run, 1, 0, buffer.Share{})
		f.refused(err, rollout.Orphaned) // a trainer that is told "over" takes all for done
		f.ok(f.Revive(f.ctx, run))
		account, err := f.Account(f.ctx, run)
		f.ok(err)
		mirror(1, runstatus.RunRunning, account.Mirrors)
		is("state of the resumed run", runstatus.RunRunning)
		mirror(1, runstatus.RunStopped, 10)
		is("state after its first workflow spoke late", runstatus.RunRunning)
	})
}

// A lost run that is resumed the moment it says so is active, though the note of its end is written last.
func TestRunRevivedWhileItsEndIsNoted(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 6))
		rdb.AddHook(before{"sadd", func() { f.ok(f.Revive(f.ctx, run)) }})
		f.ok(f.SaveStatus(f.ctx, runstatus.RunStatus{Spec: spec(1, 6), State: runstatus.RunLost}, 1))
		f.ok(f.SaveStatus(f.ctx, runstatus.RunStatus{Spec: spec(1, 6), State: runstatus.RunRunning}, 2))
		active, err := f.Active(f.ctx)
		f.ok(err)
		if len(active) != 1 {
			t.Errorf("active: %v", active)
		}
	})
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 6))
		for i, state := range []runstatus.RunState{runstatus.RunLost, runstatus.RunRunning} {
			f.ok(f.SaveStatus(f.ctx, runstatus.RunStatus{Spec: spec(1, 6), State: state}, int64(i)))
		}
		if active, err := f.Active(f.ctx); err != nil || len(active) != 1 {
			t.Errorf("a run that was taken for lost and says that it goes on: active %v, %v", active, err)
		}
	})
}

// before does something before each command of a name.
type before struct {
	command string
	do      func()
}

func (b before) DialHook(next redis.DialHook) redis.DialHook { return next }

func (b before) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == b.command {
			b.do()
		}
		return next(ctx, cmd)
	}
}

func (b before) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// eraseEvents removes the events of a deleted run, as a keeper and a server do one after the other.
func eraseEvents(ctx context.Context, rdb redis.UniversalClient) error {
	events := store.New(rdb, "millrace", store.Limits{})
	if err := events.Delete(ctx, run); err != nil {
		return err
	}
	return delivery.New(rdb, "millrace", events).Trim(ctx)
}
