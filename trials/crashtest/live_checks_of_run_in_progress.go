package crashtest

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/face/apiclient"
	"github.com/millrace/millrace/internal/kit/retry"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/store/buffer"
)

// watch observes the run in progress all the time: it takes the buffer's account and does again what was done before,
// so that what must never change is looked at between and during faults.
type watch struct {
	service *service

	round, asking sync.Mutex // held while a run is looked at, and while it is started once more

	mu          sync.Mutex
	plan        plan
	run         string
	account     buffer.Account
	batches     map[rollout.Step]*seenBatch
	pieces      map[piece][sha256.Size]byte
	violations  []string
	lost        bool // Redis is emptied: what it promised goes with it
	unavailable bool // Temporal is
	split       bool // the server goes by another master of Redis than everybody else
	tally
	served      []exchange // claims answered with a batch
	replies     []exchange // questions that only Temporal and a worker can answer
	generations []generationSeen
	launched    []time.Time // when more groups were seen to be launched than before
	era         int64       // of the account, whose rollback is known
	replaced    time.Time   // when Redis was last seen to be another one
	lostBatches map[rollout.Step]bool
}

// tally counts what was tried and answered as promised.
type tally struct {
	claims  int // of whole batches
	shares  int // batches put together from shares
	refused int // calls with the generation of a replaced trainer
	resent  int // records sent again, equal or not
	ahead   int // batches granted while Temporal was unavailable
}

// seenBatch is a batch as it was first given.
type seenBatch struct {
	hash         [sha256.Size]byte
	groups       []int64
	zeroVariance []int64 // groups whose rewards say nothing
	trajectories []string
	rewards      map[string]float64  // by trajectory
	answers      map[string][]string // by trajectory
	turns        []seenTurn
}

// seenTurn is a turn's version as the batch says, and the model that gave this very answer.
type seenTurn struct {
	trajectory string
	version    rollout.PolicyVersion
	answered
}

// answered is what gave an answer: the model that it names, and the digest of its weights, empty for the base model.
type answered struct{ model, digest string }

// exchange is one question that was answered.
type exchange struct{ asked, done time.Time }

type generationSeen struct {
	run        string
	generation rollout.TrainerGeneration
	at         time.Time
}

func newWatch(s *service) *watch { return &watch{service: s} }

// begin turns to another run.
func (w *watch) begin(p plan) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.plan, w.run, w.account, w.tally, w.violations = p, p.run(), buffer.Account{}, tally{}, nil
	w.batches, w.pieces = map[rollout.Step]*seenBatch{}, map[piece][sha256.Size]byte{}
	w.era, w.lostBatches = 0, map[rollout.Step]bool{}
}

// rest stops looking, as long as no run has begun. Nothing is under way when it returns.
func (w *watch) rest() {
	w.round.Lock()
	defer w.round.Unlock()
	w.asking.Lock()
	defer w.asking.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.plan, w.run = plan{}, ""
}

func (w *watch) current() plan {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.plan
}

// setTemporalUnavailable notes whether Temporal is unavailable.
func (w *watch) setTemporalUnavailable(unavailable bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unavailable = unavailable
}

func (w *watch) temporalUnavailable() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.unavailable
}

// setSplit notes whether the server goes by a master of Redis that another one has replaced.
func (w *watch) setSplit(split bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.split = split
}

func (w *watch) isSplit() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.split
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

// betweenCheckpoints reports whether a trainer that dies now has recorded steps that its saved weights do not know.
func (w *watch) betweenCheckpoints() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	next, steps := int(w.account.NextStep), w.plan.cfg.Steps
	return next > 0 && next < steps && (w.plan.cfg.Checkpoint == 0 || next%w.plan.cfg.Checkpoint != 0)
}

const watchEvery = 100 * time.Millisecond

// observe looks again and again until ctx is done.
func (w *watch) observe(ctx context.Context) {
	for retry.Pause(ctx, watchEvery) == nil {
		run, _ := w.now()
		if run == "" {
			continue
		}
		w.round.Lock()
		w.observeOnce(ctx, run)
		w.round.Unlock()
	}
}

func (w *watch) observeOnce(ctx context.Context, run string) {
	if !w.look(ctx, run) {
		return
	}
	_, account := w.now()
	if account.Generation == 0 {
		return
	}
	w.advance(ctx, run, account)
	if account.ClaimedTo == 0 {
		return
	}
	step := account.ClaimedTo - 1
	kept := min(account.ClaimedTo, rollout.Step(w.current().retain)) // 0 when the run was over a moment ago
	if kept > 0 && rand.IntN(3) == 0 {                               // which old step is looked at again need not repeat
		step -= rollout.Step(rand.Int64N(int64(kept)))
	}
	asked := time.Now()
	if err := w.claim(ctx, run, step, account.Generation); err == nil {
		w.mu.Lock()
		w.served = append(w.served, exchange{asked, time.Now()})
		w.mu.Unlock()
	}
	w.probe(ctx, run, step, account)
}

// question starts the run once more, which changes nothing and is answered by Temporal and the run's own workflow.
func (w *watch) question(ctx context.Context) {
	client, err := w.service.Client()
	for err == nil && retry.Pause(ctx, 500*time.Millisecond) == nil {
		w.asking.Lock()
		w.ask(ctx, client)
		w.asking.Unlock()
	}
}

func (w *watch) ask(ctx context.Context, client *apiclient.Client) {
	p := w.current()
	if p.number == 0 {
		return
	}
	asked := time.Now()
	if err := client.StartRun(ctx, p.spec()); err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.replies = append(w.replies, exchange{asked, time.Now()})
}

// look takes the account and compares it with the last one: nothing completed may become undone, unless a trainer that
// announced itself meanwhile went back. It reports whether the account can be relied on: not while Redis, come back
// older, is not repaired.
func (w *watch) look(ctx context.Context, run string) bool {
	account, err := w.service.store.Account(ctx, w.current().id())
	if err != nil || !w.compared(ctx, account) || !w.knowsRollback(ctx, account) {
		return false // Redis is unavailable, or has come back
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.run != run {
		return false
	}
	before := w.account
	w.account = account
	if account.Launched > before.Launched {
		w.launched = append(w.launched, time.Now())
	}
	if w.lost {
		return true
	}
	undone := account.NextStep < before.NextStep && account.Generation == before.Generation
	// What the account had before a repair, or before the run ever looked at it, may not have been told to anybody yet.
	// What was told is in the trainers' journals.
	same := before.Mark.Era > 0 && account.Mark.Era == before.Mark.Era
	back := undone || account.ClaimedTo < before.ClaimedTo || account.Generation < before.Generation
	if back && same {
		w.complain("the account went back: next step %d to %d, claimed %d to %d, generation %d to %d",
			before.NextStep, account.NextStep, before.ClaimedTo, account.ClaimedTo, before.Generation, account.Generation)
	}
	if account.Version < before.Version {
		w.complain("the newest policy version went back from %d to %d", before.Version, account.Version)
	}
	if missing := unaccounted(account); missing != 0 {
		w.complain("%d groups are launched but nowhere: %+v", missing, account.Counts)
	}
	most := int64(w.plan.cfg.Depth * w.plan.cfg.GroupsPerStep)
	if account.ReplicationID != before.ReplicationID {
		w.replaced = time.Now()
	}
	// An older Redis has groups in play again that were dropped, and others are in their place: until the run drops them.
	if outstanding(account) > most && time.Since(w.replaced) > w.service.cfg.patient(noticedWithin) {
		w.complain("%d groups are outstanding, more than %d: %+v", outstanding(account), most, account.Counts)
	}
	if account.Generation > before.Generation {
		w.generations = append(w.generations, generationSeen{run, account.Generation, time.Now()})
	}
	return true
}

// compared reports whether the account is one that the run has compared with its own, or that of a run which is over:
// that one gives out nothing new, and nobody is left to compare it. The end that is read may be one that was written
// with a repair since: then the account is not that of the end.
func (w *watch) compared(ctx context.Context, account buffer.Account) bool {
	if account.Confirmed() {
		return true
	}
	status, err := w.service.store.Status(ctx, w.current().id())
	if err != nil || !status.State.Over() || status.State == runstatus.RunLost {
		return false
	}
	if status.NextStep > account.NextStep {
		return false // it ended just as Redis came back older; the keeper of runs repairs its account
	}
	now, err := w.service.store.Account(ctx, w.current().id())
	return err == nil && now.ReplicationID == account.ReplicationID && now.Mark.Era == account.Mark.Era &&
		now.Mark.Serial == account.Mark.Serial
}

// knowsRollback reports whether it is known what the latest repair of the account has lost. Another batch may be given
// for a step whose batch was lost.
func (w *watch) knowsRollback(ctx context.Context, account buffer.Account) bool {
	w.mu.Lock()
	behind, known := account.Mark.Era < w.era, account.Mark.Era <= max(w.era, 1)
	if !behind && known {
		w.era = account.Mark.Era // 1: the run has confirmed it
	}
	w.mu.Unlock()
	if behind || known {
		// Behind it is where an old master has woken up that nobody has replaced yet, or nobody has looked at it yet.
		return !behind
	}
	status, err := w.service.store.Status(ctx, w.current().id())
	if err != nil || status.Rollback == nil || status.Rollback.Era < account.Mark.Era {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.service.say("  the run says: %s", status.Rollback)
	w.era = account.Mark.Era
	for _, step := range status.Rollback.LostBatches {
		w.lostBatches[step] = true
		delete(w.batches, step)
		for p := range w.pieces {
			if p.step == step {
				delete(w.pieces, p)
			}
		}
	}
	return true
}

// outstanding is how many groups were launched for batches that are not formed yet.
func outstanding(a buffer.Account) int64 { return a.Counts.Queued + a.Counts.InFlight + a.Counts.Ready }

// unaccounted is how many launched groups are in no place.
func unaccounted(a buffer.Account) int64 {
	c := a.Counts
	return a.Launched - (c.Queued + c.InFlight + c.Ready + c.Claimed + c.Completed + c.Dropped)
}

func (w *watch) complain(format string, args ...any) {
	const enough = 50
	if len(w.violations) < enough {
		text := fmt.Sprintf(format, args...)
		w.service.say("  VIOLATION %s", text)
		w.violations = append(w.violations, text)
	}
}

// claim claims a granted step again and compares it with what was given before.
func (w *watch) claim(ctx context.Context, run string, step rollout.Step, generation rollout.TrainerGeneration) error {
	a, err := w.call(ctx, http.MethodPost, fmt.Sprintf("/v1/runs/%s/steps/%d/claim?generation=%d", run, step,
		generation), nil)
	if err != nil {
		return err
	}
	if a.Status != http.StatusOK {
		return fmt.Errorf("claim of step %d answers %d: %s", step, a.Status, a.Body)
	}
	return w.compare(run, step, a.Body)
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
	seen := &seenBatch{hash: hash, rewards: map[string]float64{}, answers: map[string][]string{}}
	for _, g := range batch.Groups {
		seen.groups = append(seen.groups, int64(g.Ref.Seq))
		if rollout.HasZeroVariance(g.Trajectories) {
			seen.zeroVariance = append(seen.zeroVariance, int64(g.Ref.Seq))
		}
		for _, t := range g.Trajectories {
			seen.trajectories = append(seen.trajectories, t.ID)
			seen.rewards[t.ID] = t.Reward
			for _, turn := range t.Turns {
				seen.answers[t.ID] = append(seen.answers[t.ID], turn.Text)
				by := w.service.recorder.answeredBy(t.ID, turn.TokenIDs, turn.Logprobs)
				seen.turns = append(seen.turns, seenTurn{t.ID, turn.PolicyVersion, by})
			}
		}
	}
	return seen
}
