package crashtest

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"

	"github.com/millrace/millrace/internal/face/apiclient"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/store/buffer"
)

// What a watch does besides claiming: things that other ranks, a replaced trainer and a confused one would do, each
// with the one answer that is promised. An answer that says that something is unavailable proves nothing and is passed
// over.

// probe does one of the things, by chance.
func (w *watch) probe(ctx context.Context, run string, step rollout.Step, account buffer.Account) {
	if w.service.cfg.Lose || w.isSplit() {
		return // generations and records go with Redis, or are others at the server
	}
	switch rand.IntN(5) {
	case 0, 1:
		// an error is a transient one, or a complaint
		_ = w.claimShares(ctx, run, step, account.Generation, worldOf(rand.Int64()))
	case 2:
		w.trespass(ctx, run, account)
	case 3:
		w.recordAgain(ctx, run, account)
	case 4:
		w.recordOther(ctx, run, account)
	}
}

// piece is one rank's share of one step.
type piece struct {
	step        rollout.Step
	rank, world int
}

// worldOf is how many ranks share a batch: one, a few, and more than it has trajectories.
func worldOf(n int64) int {
	worlds := []int64{1, 2, 3, 4, 5, 23}
	return int(worlds[n%int64(len(worlds))])
}

// claimShares claims a granted step as all ranks do: what they are given must be the batch, in order and without
// overlap, and each rank is given the same bytes every time.
func (w *watch) claimShares(ctx context.Context, run string, step rollout.Step, generation rollout.TrainerGeneration,
	world int) error {
	var together []string
	for rank := range world {
		path := fmt.Sprintf("/v1/runs/%s/steps/%d/claim?generation=%d&rank=%d&world=%d", run, step, generation, rank, world)
		a, err := w.call(ctx, http.MethodPost, path, nil)
		if err == nil && a.Status != http.StatusOK {
			err = fmt.Errorf("rank %d of %d: step %d answers %d: %s", rank, world, step, a.Status, a.Body)
		}
		if err != nil {
			return err
		}
		var batch rollout.Batch
		if err := json.Unmarshal(a.Body, &batch); err != nil {
			return fmt.Errorf("rank %d of %d: step %d cannot be read: %w", rank, world, step, err)
		}
		w.comparePiece(run, piece{step, rank, world}, sha256.Sum256(a.Body))
		for _, g := range batch.Groups {
			for _, t := range g.Trajectories {
				together = append(together, t.ID)
			}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.run != run {
		return nil
	}
	whole := w.batches[step]
	if whole == nil {
		return errors.New("the whole batch was not seen yet")
	}
	w.shares++
	if !slices.Equal(together, whole.trajectories) {
		w.complain("step %d: the shares of %d ranks are %q, the batch is %q", step, world, together, whole.trajectories)
	}
	return nil
}

func (w *watch) comparePiece(run string, p piece, hash [sha256.Size]byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.run != run {
		return
	}
	if before, seen := w.pieces[p]; seen && before != hash {
		w.complain("step %d: rank %d of %d was given other bytes than before", p.step, p.rank, p.world)
	}
	w.pieces[p] = hash
}

// trespass does what a replaced trainer does that does not know it yet.
func (w *watch) trespass(ctx context.Context, run string, account buffer.Account) {
	old := account.Generation - 1
	if old < 1 {
		return
	}
	var a apiclient.Answer
	var err error
	what := rand.IntN(3)
	switch what {
	case 0:
		a, err = w.call(ctx, http.MethodPost, fmt.Sprintf("/v1/runs/%s/steps/%d/claim?generation=%d", run,
			account.NextStep, old), nil)
	case 1:
		body := map[string]any{"generation": old, "wall_seconds": 1}
		a, err = w.call(ctx, http.MethodPut, fmt.Sprintf("/v1/runs/%s/steps/%d", run, account.NextStep), body)
	case 2:
		body := map[string]any{"generation": old, "path": "/nowhere"}
		a, err = w.call(ctx, http.MethodPut, fmt.Sprintf("/v1/runs/%s/policies/%d", run, account.Version+1), body)
	}
	if err != nil || transient(a) || a.Status == http.StatusNoContent { // Redis has come back, and is compared first
		return
	}
	w.judge(run, is(a, rollout.Fenced), &w.refused, "a trainer of generation %d, replaced by %d, was answered "+
		"%d %s to its %s",
		old, account.Generation, a.Status, a.Body, []string{"claim", "record", "publication"}[what])
}

// recordAgain sends the record of a completed step once more, as a trainer does that never saw the answer.
func (w *watch) recordAgain(ctx context.Context, run string, account buffer.Account) {
	if account.NextStep == 0 {
		return
	}
	step := rollout.Step(rand.Int64N(int64(account.NextStep)))
	record, err := w.service.store.Step(ctx, w.current().id(), step)
	if err != nil || !record.Done || record.LostRecord {
		return // Redis is unavailable or has lost it, or a trainer has gone back meanwhile
	}
	body := map[string]any{
		"generation": account.Generation, "wall_seconds": record.Trainer.WallSec, "phases": record.Trainer.Phases,
		"metrics": record.Trainer.Metrics,
	}
	a, err := w.call(ctx, http.MethodPut, fmt.Sprintf("/v1/runs/%s/steps/%d", run, step), body)
	if err != nil || transient(a) || is(a, rollout.Fenced) { // a trainer announced itself meanwhile
		return
	}
	w.judge(run, a.Status == http.StatusOK, &w.resent, "the record of step %d, sent again, was answered %d %s", step,
		a.Status, a.Body)
}

// recordOther sends another record of a completed step, which only a trainer that goes back may do.
func (w *watch) recordOther(ctx context.Context, run string, account buffer.Account) {
	if account.NextStep == 0 {
		return
	}
	step := rollout.Step(rand.Int64N(int64(account.NextStep)))
	if record, err := w.service.store.Step(ctx, w.current().id(), step); err != nil || record.LostRecord {
		return // a record that is lost may be sent
	}
	body := map[string]any{"generation": account.Generation, "wall_seconds": 1e6,
		"metrics": map[string]float64{"other": 1}}
	a, err := w.call(ctx, http.MethodPut, fmt.Sprintf("/v1/runs/%s/steps/%d", run, step), body)
	if err != nil || transient(a) || is(a, rollout.Fenced) {
		return
	}
	w.judge(run, is(a, rollout.Conflict), &w.resent, "another record of step %d was answered %d %s", step,
		a.Status, a.Body)
}

// advance claims the batch after the one in training while Temporal is unavailable and enough groups are ready, as a
// trainer does that reads ahead: the way to a batch must not lead through Temporal.
func (w *watch) advance(ctx context.Context, run string, account buffer.Account) {
	step, size := account.ClaimedTo, int64(w.current().cfg.GroupsPerStep)
	over := int(step) >= w.current().cfg.Steps || step > account.NextStep+1
	if !w.temporalUnavailable() || over || step == 0 || account.Counts.Ready < size || w.current().cfg.Shape == Waiting {
		return
	}
	a, err := w.call(ctx, http.MethodPost, fmt.Sprintf("/v1/runs/%s/steps/%d/claim?generation=%d", run, step,
		account.Generation), nil)
	if err == nil && (is(a, rollout.Fenced) || a.Status == http.StatusNoContent) {
		return // another trainer, or what was ready was too stale
	}
	if !w.temporalUnavailable() {
		return
	}
	w.judge(run, err == nil && a.Status == http.StatusOK, &w.ahead,
		"step %d could not be claimed while Temporal was unavailable, with %d groups ready: %d %s %v", step,
		account.Counts.Ready, a.Status, a.Body, err)
}

// judge counts what went as promised and complains of the rest.
func (w *watch) judge(run string, kept bool, count *int, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.run != run, w.split:
	case kept:
		*count++
	default:
		w.complain(format, args...)
	}
}
