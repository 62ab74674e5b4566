package pack

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/millrace/millrace/internal/rollout"
)

// Journal is the game that the records of a journal add up to.
type Journal struct {
	Checkpoint *rollout.Checkpoint // after the last finished phase; nil: none is finished
	Answers    []JournalAnswer     // the latest of each agent
	Finished   *rollout.Episode    // nil: it is not

	state journalState
}

// Writer makes the records that go on from here.
func (j *Journal) Writer() *JournalWriter {
	w := &JournalWriter{state: j.state}
	w.Forget() // so that an attempt's records do not depend on another attempt's
	return w
}

// ReadJournal reads the records of a game's journal.
func ReadJournal(ref rollout.EpisodeRef, records []string) (*Journal, error) {
	j := &Journal{}
	j.state.turns = map[string][]rollout.Turn{}
	for i, record := range records {
		if err := j.take(ref, []byte(record)); err != nil {
			return nil, fmt.Errorf("record %d of %d: %w", i, len(records), err)
		}
	}
	return j, nil
}

// take reads one record.
func (j *Journal) take(ref rollout.EpisodeRef, b []byte) error {
	kind, r, err := openRecord(b)
	if err != nil {
		return err
	}
	number := r.uint()
	if r.err == nil && number < j.state.next {
		return nil // it arrived twice
	}
	if r.bool() {
		j.state.prompts, j.state.answers = journalPrompts{}, nil
	}
	switch kind {
	case recordAnswer:
		j.answer(r, number)
	case recordPhase:
		j.phase(ref, r, number)
	case recordEnd:
		j.end(ref, r)
	case recordGame, recordWhole:
		if err := j.whole(kind, r.bytes()); err != nil {
			return err
		}
	default:
		return fmt.Errorf("%w: a record of kind %d", ErrCorrupt, kind)
	}
	j.state.next = number + 1
	return r.close()
}

// whole reads a record of the game as a whole.
func (j *Journal) whole(kind recordKind, packed []byte) error {
	if kind == recordWhole {
		ep, err := ReadEpisode(packed)
		j.Finished = &ep
		return err
	}
	c, err := Load(packed)
	if err != nil {
		return err
	}
	j.Checkpoint = &c
	w := JournalWriter{state: j.state}
	w.took(&c)
	j.state = w.state
	return nil
}

func (j *Journal) answer(r *reader, number uint64) {
	var a JournalAnswer
	j.state.prompts.answer(codec{r: r}, &a)
	j.state.answers = append(j.state.answers, numberedAnswer{number, a})
	at := slices.IndexFunc(j.Answers, func(of JournalAnswer) bool { return of.Agent == a.Agent })
	if at < 0 {
		j.Answers = append(j.Answers, a)
	} else {
		j.Answers[at] = a
	}
}

func (j *Journal) phase(ref rollout.EpisodeRef, r *reader, number uint64) {
	c := rollout.Checkpoint{PhaseIndex: int(r.int())}
	codec{r: r}.episodeHead(&c.Episode)
	c.Episode.Trajectories = j.trajectories()
	c.Game = j.gameSince(r)
	for range r.count(minJournalTurn) {
		agent := r.name()
		t := j.turn(r, agent, number)
		if r.err != nil {
			return
		}
		of := trajectoryOf(&c.Episode, ref, agent)
		of.Turns = append(of.Turns, t)
		j.state.turns[agent] = of.Turns
	}
	j.state.game, j.state.answers, j.Checkpoint = c.Game, nil, &c
}

// trajectories are those of the last phase; like all that is read, empty and never nil.
func (j *Journal) trajectories() []rollout.Trajectory {
	if j.Checkpoint == nil {
		return []rollout.Trajectory{}
	}
	return j.Checkpoint.Episode.Trajectories
}

// minJournalTurn is the fewest bytes that a turn of a phase can take in the plan column.
const minJournalTurn = 16

func (j *Journal) gameSince(r *reader) []byte {
	head, tail, between := r.uint(), r.uint(), r.bytes()
	before := j.state.game
	if head > uint64(len(before)) || tail > uint64(len(before))-head {
		r.fail("game since the last phase")
		return nil
	}
	return slices.Concat(before[:head], between, before[uint64(len(before))-tail:])
}

func (j *Journal) turn(r *reader, agent string, number uint64) (t rollout.Turn) {
	if r.bool() {
		since := r.uint()
		at := slices.IndexFunc(j.state.answers, func(a numberedAnswer) bool {
			return since <= number && a.number == number-since && a.Agent == agent
		})
		if at < 0 {
			r.fail("answer that a turn was made of")
			return t
		}
		c := &j.state.answers[at].Completion
		t.Engine, t.FinishReason, t.Text = c.Engine, c.FinishReason, c.Text
		t.PromptTokenIDs, t.TokenIDs, t.Logprobs = c.PromptTokenIDs, c.TokenIDs, c.Logprobs
		t.Timing = c.Timing
	} else {
		j.state.prompts.answered(codec{r: r}, agent, &t)
	}
	codec{r: r}.decided(&t)
	return t
}

// trajectoryOf finds an agent's trajectory, or begins it. The pointer is good until the next call.
func trajectoryOf(e *rollout.Episode, ref rollout.EpisodeRef, agent string) *rollout.Trajectory {
	for i := range e.Trajectories {
		if e.Trajectories[i].Agent == agent {
			return &e.Trajectories[i]
		}
	}
	e.Trajectories = append(e.Trajectories, rollout.Trajectory{ID: ref.TrajectoryID(agent), Sample: ref.Sample,
		Agent: agent})
	return &e.Trajectories[len(e.Trajectories)-1]
}

// minEnd is the fewest bytes that a trajectory of a finished game can take in the plan column.
const minEnd = 18

func (j *Journal) end(ref rollout.EpisodeRef, r *reader) {
	var e rollout.Episode
	codec{r: r}.episodeHead(&e)
	e.Trajectories = slices.Clone(j.trajectories())
	for range r.count(minEnd) {
		t := trajectoryOf(&e, ref, r.name())
		t.Reward = r.float()
		t.Advantage = r.float()
		t.Truncated = r.bool()
	}
	j.Finished = &e
}

// openRecord checks a record's header and finds its columns.
func openRecord(b []byte) (recordKind, *reader, error) {
	if len(b) < recordHeader || b[0] != journalMagic {
		return 0, nil, fmt.Errorf("%w: no record of a journal", ErrCorrupt)
	}
	if binary.LittleEndian.Uint32(b[2:]) != crc32.Checksum(b[recordHeader:], castagnoli) {
		return 0, nil, fmt.Errorf("%w: checksum of a journal's record", ErrCorrupt)
	}
	r, err := split(b[recordHeader:])
	return recordKind(b[1]), r, err
}
