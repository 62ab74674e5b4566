package buffer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/store/redisserver"
)

// errUnconfirmed is wrapped by the refusal of a call that waits for the run to compare its account with Redis.
var errUnconfirmed = errors.New("the account is not confirmed")

// Unconfirmed reports whether a call was refused because Redis may have come back older than it was. The run then
// compares the account with its own, and repairs it if need be; tell it that a caller waits.
func Unconfirmed(err error) bool { return errors.Is(err, errUnconfirmed) }

// unconfirmed refuses a call for the moment. A claim waits for this as it waits for groups.
func unconfirmed(sc *script, run rollout.RunName) error {
	code := rollout.Unavailable
	if sc == claimScript {
		code = rollout.NotReady
	}
	refusal := rollout.Refuse(code, "Redis was restarted, failed over or restored; before anything is given out, run %s "+
		"compares what Redis says with what Temporal knows, which needs Temporal and a worker; ask again", run)
	return &doubted{refusal}
}

// doubted is the refusal, in its own words, with what it is.
type doubted struct{ refusal error }

func (d *doubted) Error() string   { return d.refusal.Error() }
func (d *doubted) Unwrap() []error { return []error{d.refusal, errUnconfirmed} }

// Confirm says that a run has compared its account with the one that the buffer answered, under a replication id of
// Redis, and that neither is behind. Calls go on. It is false, and changes nothing, when Redis was replaced or the
// account repaired since.
func (s *Store) Confirm(ctx context.Context, run rollout.RunName, era int64, replicationID string) (bool, error) {
	confirmed, err := s.did(ctx, "confirm account", confirmScript, run, era, replicationID)
	if err == nil {
		s.rewriteTornLogs(ctx)
	}
	return confirmed, err
}

// rewriteTornLogs has Redis, which was restarted or replaced, write its log anew. Where that fails nothing is worse
// than before, and the next comparison asks again.
func (s *Store) rewriteTornLogs(ctx context.Context) { _ = redisserver.RewriteTornLogs(ctx, s.rdb) }

// Witnessed notes that the run's workflow knows a mark.
func (s *Store) Witnessed(ctx context.Context, run rollout.RunName, mark runstatus.Mark) error {
	s.known.mu.Lock()
	if m := s.known.all[run]; m != nil && m.Era == mark.Era && m.Serial <= mark.Serial {
		m.witnessed, m.Grants = mark.Serial, nil
	}
	s.known.mu.Unlock()
	return s.do(ctx, "note what the run knows", witnessedScript, run, mark.Era, mark.Serial)
}

// Repair is the run's knowledge of its account, for a buffer that is behind it.
type Repair struct {
	Era       int64              `json:"era"` // that the account has from now on
	Mark      runstatus.Mark     `json:"mark"`
	NextGroup rollout.GroupSeq   `json:"next_group"` // first that was never launched
	Playing   []rollout.GroupSeq `json:"playing"`    // whose workflows go on
	Ready     []rollout.GroupSeq `json:"ready"`
	Games     int                `json:"games,omitempty"` // the most per group
}

// Repair repairs the account of a Redis that came back older, so that nothing is undone that trainers were told. Every
// trainer process is refused until it announces itself again. A granted step is granted again with the same groups if
// all of them survive unchanged. Otherwise it is lost: a claim is refused as BatchLost until a trainer resumes from
// that step or an earlier one. Groups that no workflow will finish, or that may have been trained on, are dropped as
// lost. A second call changes nothing, and returns what the first one found.
func (s *Store) Repair(ctx context.Context, run rollout.RunName, known Repair) (runstatus.Rollback, error) {
	back := runstatus.Rollback{At: s.now(), Era: known.Era, Granted: known.Mark.Granted, Completed: known.Mark.Completed}
	lists, err := json.Marshal(map[string]any{
		"playing": list(known.Playing), "ready": list(known.Ready), "grants": list(known.Mark.Grants),
		"terms": list(known.Mark.Terms),
	})
	if err != nil {
		return back, fmt.Errorf("repair account: %w", err)
	}
	now := s.now()
	left, err := leftFact(run, now)
	if err != nil {
		return back, err
	}
	m := known.Mark
	r, err := s.eval(ctx, repairScript, run, known.Era, m.Serial, int64(m.Generation), int64(m.Version),
		int64(m.Completed), int64(m.Granted), int64(known.NextGroup), s.retain, stamp(now), lists, left, known.Games)
	if err != nil {
		return back, fmt.Errorf("repair account: %w", err)
	}
	if err := json.Unmarshal([]byte(r.str(2)), &back); err != nil {
		return back, fmt.Errorf("repair account: %w", err)
	}
	s.known.note(run, markOf(r.list(3)))
	_ = s.collect(ctx, run) // else with the next group
	s.rewriteTornLogs(ctx)
	return back, nil
}

// list is a list that scripts can read also when it is empty.
func list[T any](of []T) []T {
	if of == nil {
		return []T{}
	}
	return of
}
