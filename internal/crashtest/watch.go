package crashtest

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/buffer"
	"github.com/millrace/millrace/internal/cli"
	"github.com/millrace/millrace/internal/rollout"
)

// watch observes the run in progress all the time: it takes the buffer's account and claims batches again that were
// granted before, so that what must never change is looked at between and during faults.
type watch struct {
	stack *stack

	mu         sync.Mutex
	run        string
	account    buffer.Account
	batches    map[rollout.Step]*seenBatch
	claims     int
	violations []string
	lost       bool       // Redis is emptied: what it promised goes with it
	served     []exchange // claims answered with a batch
	answered   []exchange // questions that only Temporal and a worker can answer
	epochs     []epochSeen
}

// seenBatch is a batch as it was first given.
type seenBatch struct {
	hash         [sha256.Size]byte
	groups       []int64
	trajectories []string
	turns        []seenTurn
}

// seenTurn is a turn's version as the batch says, and the model that gave this very answer.
type seenTurn struct {
	trajectory string
	version    rollout.PolicyVersion
	model      string
}

// exchange is one question that was answered.
type exchange struct{ asked, done time.Time }

type epochSeen struct {
	run   string
	epoch rollout.Epoch
	at    time.Time
}

func newWatch(s *stack) *watch { return &watch{stack: s} }

// begin turns to another run.
func (w *watch) begin(run string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.run, w.account, w.batches, w.claims, w.violations = run, buffer.Account{}, map[rollout.Step]*seenBatch{}, 0, nil
}

// forgive turns a blind eye on what a Redis that is emptied cannot keep.
func (w *watch) forgive() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lost = true
	w.account = buffer.Account{}
}

func (w *watch) now() (run string, account buffer.Account) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.run, w.account
}

const watchEvery = 100 * time.Millisecond

// observe looks again and again until ctx is done.
func (w *watch) observe(ctx context.Context) {
	for pause(ctx, watchEvery) == nil {
		run, _ := w.now()
		if run == "" {
			continue
		}
		w.look(ctx, run)
		_, account := w.now()
		if account.ClaimedTo == 0 || account.Epoch == 0 {
			continue
		}
		step := account.ClaimedTo - 1
		if rand.IntN(3) == 0 { // which old step is looked at again need not repeat
			step = rollout.Step(rand.Int64N(int64(account.ClaimedTo)))
		}
		asked := time.Now()
		if err := w.claim(ctx, run, step, account.Epoch); err == nil {
			w.mu.Lock()
			w.served = append(w.served, exchange{asked, time.Now()})
			w.mu.Unlock()
		}
	}
}

// question starts the run once more, which changes nothing and is answered by Temporal and the run's own workflow.
func (w *watch) question(ctx context.Context) {
	client, err := cli.NewClient("http://"+w.stack.server, "", w.stack.http)
	for err == nil && pause(ctx, 500*time.Millisecond) == nil {
		run, _ := w.now()
		if run == "" {
			continue
		}
		asked := time.Now()
		if err := client.StartRun(ctx, w.stack.spec(run)); err != nil {
			continue
		}
		w.mu.Lock()
		w.answered = append(w.answered, exchange{asked, time.Now()})
		w.mu.Unlock()
	}
}

// look takes the account and compares it with the last one: nothing completed may become undone.
func (w *watch) look(ctx context.Context, run string) {
	account, err := w.stack.store.Account(ctx, rollout.RunName(run))
	if err != nil {
		return // Redis is away
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.run != run {
		return
	}
	before := w.account
	w.account = account
	if w.lost {
		return
	}
	if account.NextStep < before.NextStep || account.ClaimedTo < before.ClaimedTo || account.Epoch < before.Epoch {
		w.complain("the account went back: next step %d to %d, claimed %d to %d, epoch %d to %d",
			before.NextStep, account.NextStep, before.ClaimedTo, account.ClaimedTo, before.Epoch, account.Epoch)
	}
	if missing := unaccounted(account); missing != 0 {
		w.complain("%d groups are launched but nowhere: %+v", missing, account.Counts)
	}
	if account.Epoch > before.Epoch {
		w.epochs = append(w.epochs, epochSeen{run, account.Epoch, time.Now()})
	}
}

// unaccounted is how many launched groups are in no place.
func unaccounted(a buffer.Account) int64 {
	c := a.Counts
	return a.Launched - (c.Queued + c.InFlight + c.Ready + c.Claimed + c.Completed + c.Dropped)
}

func (w *watch) complain(format string, args ...any) {
	const enough = 50
	if len(w.violations) < enough {
		w.violations = append(w.violations, fmt.Sprintf(format, args...))
	}
}

// claim claims a granted step again and compares it with what was given before.
func (w *watch) claim(ctx context.Context, run string, step rollout.Step, epoch rollout.Epoch) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	url := fmt.Sprintf("http://%s/v1/runs/%s/steps/%d/claim?epoch=%d", w.stack.server, run, step, epoch)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
	if err != nil {
		return err
	}
	resp, err := w.stack.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("claim of step %d answers %d: %s", step, resp.StatusCode, body)
	}
	return w.compare(run, step, body)
}

func (w *watch) compare(run string, step rollout.Step, body []byte) error {
	hash := sha256.Sum256(body)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.run != run {
		return nil
	}
	w.claims++
	if seen := w.batches[step]; seen != nil && !w.lost {
		if seen.hash != hash {
			w.complain("step %d was given as other bytes than before", step)
		}
		return nil
	}
	var batch rollout.Batch
	if err := json.Unmarshal(body, &batch); err != nil {
		w.complain("the batch of step %d cannot be read: %v", step, err)
		return err
	}
	w.batches[step] = w.read(hash, &batch)
	return nil
}

func (w *watch) read(hash [sha256.Size]byte, batch *rollout.Batch) *seenBatch {
	seen := &seenBatch{hash: hash}
	for _, g := range batch.Groups {
		seen.groups = append(seen.groups, int64(g.Ref.Seq))
		for _, t := range g.Trajectories {
			seen.trajectories = append(seen.trajectories, t.ID)
			for _, turn := range t.Turns {
				model := w.stack.recorder.model(t.ID, turn.TokenIDs, turn.Logprobs)
				seen.turns = append(seen.turns, seenTurn{t.ID, turn.PolicyVersion, model})
			}
		}
	}
	return seen
}
