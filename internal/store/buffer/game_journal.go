package buffer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/store/buffer/pack"
)

// Answer is one agent's answer in a phase that is not finished. It is good for the same request alone: the one
// with this key.
type Answer struct {
	Key        string // of the request, its prompt included; the caller's to make
	Completion rollout.Completion
}

// Journal is one attempt's view of a game's journal: the records that it found there, and those that it adds. A journal
// is an append-only list in Redis, in a hash slot of the game's own; package pack encodes the records. Methods may be
// called concurrently.
type Journal interface {
	// Checkpoint is the game after its last finished phase when the journal was opened; nil: none was.
	Checkpoint() *rollout.Checkpoint
	// Answers are each agent's latest answers when the journal was opened.
	Answers() map[string]Answer
	// Answer keeps an agent's answer. It does not wait: the answer is in Redis some milliseconds later, and one that
	// cannot be kept is asked for again if the phase is. It is refused as Fenced when it is known that the group or the
	// game is over or a higher attempt plays it.
	Answer(agent string, a Answer) error
	// Phase keeps the progress after a phase, and tells its news with that. It is refused as Answer is.
	Phase(ctx context.Context, cp rollout.Checkpoint) error
	// End keeps a finished game. The first that is finished stands; to end it again changes nothing.
	End(ctx context.Context, ep rollout.Episode, game []byte) error
	// Close waits, for a moment, until the answers are kept.
	Close()
}

// journalKept is how long a journal is kept after its latest phase; it is deleted with its group long before, unless a
// process dies between two calls.
const journalKept = 14 * 24 * time.Hour

// gameKey is a key in the slot of a game.
func (s *Store) gameKey(ref rollout.EpisodeRef, what string) string {
	return s.prefix + ":{" + ref.String() + "}:" + what
}

func (s *Store) journalKeys(ref rollout.EpisodeRef) []string {
	return []string{s.gameKey(ref, "journal"), s.gameKey(ref, "final")}
}

// journal is a Journal. What it is given becomes a record at once; the records are sent by a journalSender.
type journal struct {
	store   *Store
	ref     rollout.EpisodeRef
	attempt int
	found   *rollout.Checkpoint
	answers map[string]Answer

	mu      sync.Mutex // guards what follows
	writer  *pack.JournalWriter
	based   bool     // the journal holds what the attempt goes on from
	started bool     // the account knows that the group is in flight
	current *sending // under way
	next    *sending // what is to be sent then
	fenced  error    // why nothing more is taken
}

var _ Journal = (*journal)(nil)

// sending is records that are sent together: all of them arrive, or none.
type sending struct {
	of      *journal
	records []any
	phases  int // finished, with these records; 0: no record is a phase
	news    []rollout.News
	done    chan struct{}
	err     error // readable when done is closed
}

// errJournalGone ends a write to a journal that does not exist.
var errJournalGone = errors.New("the game's journal is gone")

// OpenJournal opens the journal of a game for an attempt that has begun. From now on lower attempts write nothing more.
func (s *Store) OpenJournal(ctx context.Context, ref rollout.EpisodeRef, attempt int) (Journal, error) {
	answer, err := openJournal.Run(ctx, s.rdb, s.journalKeys(ref)[:1], attempt, keptInSeconds).Slice()
	if err != nil {
		return nil, trouble("open journal", err)
	}
	r := reply(answer)
	if r.str(0) != "ok" {
		// The account has just said that this attempt is the latest: if it is right, it has forgotten later ones, and the
		// next attempt has a higher number.
		return nil, fmt.Errorf("journal of %s: attempt %d has opened it before attempt %d", ref, r.int(1), attempt)
	}
	if err := s.stillInPlay(ctx, ref); err != nil {
		return nil, err
	}
	j := &journal{store: s, ref: ref, attempt: attempt, answers: map[string]Answer{}, based: true}
	kept, err := readJournal(ref, r.list(1))
	if err != nil {
		return nil, err
	}
	j.writer, j.found = kept.Writer(), kept.Checkpoint
	for _, a := range kept.Answers {
		j.answers[a.Agent] = Answer{Key: a.Key, Completion: a.Completion}
	}
	return j, nil
}

func readJournal(ref rollout.EpisodeRef, records reply) (*pack.Journal, error) {
	texts := make([]string, len(records))
	for i := range records {
		texts[i] = records.str(i)
	}
	kept, err := pack.ReadJournal(ref, texts)
	if err != nil {
		return nil, fmt.Errorf("journal of %s: %w", ref, err)
	}
	return kept, nil
}

func (j *journal) Checkpoint() *rollout.Checkpoint { return j.found }

func (j *journal) Answers() map[string]Answer { return j.answers }

func (j *journal) Answer(agent string, a Answer) error {
	j.mu.Lock()
	if j.fenced != nil || !j.based {
		defer j.mu.Unlock()
		return j.fenced
	}
	j.add(j.writer.Answer(pack.JournalAnswer{Agent: agent, Key: a.Key, Completion: a.Completion}))
	j.mu.Unlock()
	j.store.journals.soon(j)
	return nil
}

// add appends a record to what is sent next.
func (j *journal) add(record []byte) *sending {
	if j.next == nil {
		j.next = &sending{of: j, done: make(chan struct{})}
	}
	j.next.records = append(j.next.records, record)
	return j.next
}

func (j *journal) Phase(ctx context.Context, cp rollout.Checkpoint) error {
	if err := j.start(ctx); err != nil {
		return err
	}
	if err := j.quiet(ctx); err != nil {
		return err
	}
	defer j.mu.Unlock()
	if j.fenced != nil {
		return j.fenced
	}
	if !j.based || !j.writer.Fits(&cp) {
		return j.replace(ctx, cp)
	}
	s := j.add(j.writer.Phase(&cp))
	s.phases, s.news = cp.PhaseIndex, cp.News
	j.mu.Unlock()
	j.store.journals.now(j)
	err := s.wait(ctx)
	j.mu.Lock()
	if errors.Is(err, errJournalGone) {
		return j.replace(ctx, cp)
	}
	if err != nil {
		return fmt.Errorf("save checkpoint: %w", err)
	}
	return nil
}

// start tells the account, once, that the group is in flight.
func (j *journal) start(ctx context.Context) error {
	j.mu.Lock()
	started := j.started
	j.mu.Unlock()
	if started {
		return nil
	}
	if err := j.store.Start(ctx, j.ref.GroupRef); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.started = true
	return nil
}

// quiet waits until nothing is under way, so that it is known what the journal holds, and returns with the lock.
func (j *journal) quiet(ctx context.Context) error {
	for {
		j.mu.Lock()
		current := j.current
		if current == nil {
			return nil
		}
		j.mu.Unlock()
		select {
		case <-current.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *sending) wait(ctx context.Context) error {
	select {
	case <-s.done:
		return s.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// replace writes the game as a whole. It is called with the lock, and nothing under way.
func (j *journal) replace(ctx context.Context, cp rollout.Checkpoint) error {
	j.drop()
	record, err := j.writer.Game(&cp)
	if err == nil {
		err = j.store.saveWhole(ctx, j.ref, j.attempt, cp.PhaseIndex, record)
	} else {
		err = rollout.Refuse(rollout.Invalid, "checkpoint of %s: %v", j.ref, err)
	}
	j.based = err == nil
	j.note(err)
	for _, n := range cp.News {
		if err == nil {
			_ = j.store.rdb.Publish(ctx, n.Channel, n.Text) // who waits looks in time
		}
	}
	return err
}

// drop forgets what was to be sent.
func (j *journal) drop() {
	if j.next != nil {
		close(j.next.done)
		j.next = nil
	}
}

// note remembers that nothing more is taken.
func (j *journal) note(err error) {
	if rollout.Refused(err, rollout.Fenced) {
		j.fenced = err
	}
}

func (j *journal) End(ctx context.Context, ep rollout.Episode, game []byte) error {
	if err := j.quiet(ctx); err != nil {
		return err
	}
	defer j.mu.Unlock()
	j.drop() // answers that no phase has taken
	if !j.based || !j.writer.CanEnd(&ep) {
		return j.store.SaveEpisode(ctx, j.ref, j.attempt, ep, game)
	}
	state, err := pack.Bytes(game)
	if err != nil {
		return rollout.Refuse(rollout.Invalid, "game of %s: %v", j.ref, err)
	}
	answer, err := finishJournal.Run(ctx, j.store.rdb, j.store.journalKeys(j.ref), j.attempt, ep.Phases,
		keptInSeconds, j.writer.End(&ep), state).Slice()
	if err != nil {
		return trouble("save episode", err)
	}
	switch r := reply(answer); r.str(0) {
	case "ok":
		return j.store.finished(ctx, j.ref, j.attempt, &ep)
	case "gone":
		return j.store.SaveEpisode(ctx, j.ref, j.attempt, ep, game)
	default:
		return journalRefused(j.ref, j.attempt, r)
	}
}

// closePatience bounds how long the end of an attempt waits for its last answers.
const closePatience = 2 * time.Second

func (j *journal) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	if j.quiet(ctx) != nil {
		return
	}
	last := j.next
	j.mu.Unlock()
	if last != nil {
		j.store.journals.now(j)
		_ = last.wait(ctx) // an answer that is not kept is asked for again
	}
}
