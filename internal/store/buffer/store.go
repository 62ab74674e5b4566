// Package buffer is what may be trained on: it admits groups, bounds their staleness, forms a step's
// batch, hands it out exactly once, and keeps the games in progress, all in Redis. It decides nothing about
// when to launch a group or how to play one; it keeps the account that tells.
//
// A group is queued, in flight, ready, claimed, and then completed, or dropped from any of the first three; it is in
// exactly one of them, and every change is one Lua script, so that it happens wholly or not at all, once, however
// often it is asked for. A step's batch is a function of the step's number: granted once, given again to whoever asks
// again, kept until RetainSteps later steps are completed. Groups that leave are counted by why and by length. Only
// the trainer process announced last is served. The keys of a run's account share a hash tag, so that a Redis Cluster
// will do, and so do those of each game, its journal and its last state: a run's games are spread over all nodes. The
// scripts read no clock. Each script also writes the facts that tell of what it did, where
// internal/store/eventstore keeps them: one is not there without the other.
//
// Redis may come back older than it was, or empty. Each trainer that is announced, batch that is granted and step that
// is completed raises the account's mark, which the run's workflow has in Temporal before the trainer is told. After a
// restart or a failover, and whenever a process knows more of the account than Redis does, nothing is given out until
// the run has compared the two (Confirm) and, if Redis is behind, repaired the account (Repair).
//
// Start reading at Store, then Claim in attach_trainer_claim_complete_steps.go, then lua/prelude.lua for the keys, and
// Journal in game_journal.go for games in progress. Package pack is the form in which groups and games are stored.
package buffer

import (
	"cmp"
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/store/runindex"
)

// Options are the choices of a Store; the zero value is usable.
type Options struct {
	Prefix      string           // of every key; default "millrace"
	RetainSteps int              // completed steps whose batches are kept for a rewind; default 2, negative: none
	DetailSteps int              // latest steps whose records list their groups; default 4096. Others take half a kilobyte
	Now         func() time.Time // default time.Now
	// WaitReplicas is how many replicas must have what a trainer is told before it is told, and WaitFor how long they may
	// take. 0: none need to.
	WaitReplicas int
	WaitFor      time.Duration
}

// Store is the buffer of all runs. It holds no state of its own but records on their way, and how far it has seen
// accounts come: any number of processes may use the same Redis, and a method may be called again when its answer was
// lost.
type Store struct {
	rdb    redis.UniversalClient
	prefix string
	retain int
	detail int
	now    func() time.Time
	known  *knownMarks
	runs   runindex.Index
	recent recentRuns

	waitReplicas int
	waitFor      time.Duration

	journals *journalSender
}

// New makes a Store; it does not connect.
func New(rdb redis.UniversalClient, o Options) *Store {
	s := &Store{rdb: rdb, prefix: o.Prefix, retain: o.RetainSteps, detail: o.DetailSteps, now: o.Now,
		known: newKnownMarks(), recent: recentRuns{token: make(chan struct{}, 1)},
		waitReplicas: o.WaitReplicas, waitFor: o.WaitFor}
	s.prefix = cmp.Or(s.prefix, "millrace")
	s.retain = cmp.Or(s.retain, 2)
	s.retain = max(s.retain, 0)
	if s.detail <= 0 {
		s.detail = 4096
	}
	if s.now == nil {
		s.now = time.Now
	}
	s.runs = runindex.New(rdb, s.prefix)
	s.journals = &journalSender{store: s}
	return s
}

// Ping reports whether Redis answers.
func (s *Store) Ping(ctx context.Context) error {
	return trouble("ping", s.rdb.Ping(ctx).Err())
}

// key is a key of a run; key(run, "run") is the one that the scripts derive the others from.
func (s *Store) key(run rollout.RunName, rest string) string {
	return s.prefix + ":{" + string(run) + "}:" + rest
}
