package pack_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/store/buffer/pack"
)

// A journal comes to what was written into it, whichever answers were kept, whatever arrived twice or not at all, and
// wherever another attempt went on.
func TestJournalsComeBack(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		j := newJournalled(seed)
		for range 1 + j.rng.IntN(12) {
			j.phase(t)
			j.check(t)
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
		j.end(t)
	}
}

// journalled is a game that is played and written down.
type journalled struct {
	rng     *rand.Rand
	ref     rollout.EpisodeRef
	now     rollout.Checkpoint
	writer  *pack.JournalWriter
	records []string
}

func newJournalled(seed uint64) *journalled {
	rng := rand.New(rand.NewPCG(seed, 7))
	ref := rollout.EpisodeRef{GroupRef: rollout.GroupRef{Run: "demo", Seq: 3}, Sample: rng.IntN(4)}
	return &journalled{rng: rng, ref: ref, writer: &pack.JournalWriter{}, now: rollout.Checkpoint{
		Game: []byte(`{"phases":[`), Episode: rollout.Episode{Ref: ref, Trajectories: []rollout.Trajectory{}}}}
}

// write writes a record, which may arrive twice.
func (j *journalled) write(record []byte) {
	for range 1 + flip(j.rng, 8) {
		j.records = append(j.records, string(record))
	}
}

// flip is 1 once in n times.
func flip(rng *rand.Rand, n int) int {
	if rng.IntN(n) == 0 {
		return 1
	}
	return 0
}

// phase plays and writes a phase. Some answers are not kept, or lost on the way; then the writer forgets.
func (j *journalled) phase(t *testing.T) {
	j.now.PhaseIndex++
	ep := &j.now.Episode
	ep.Phases, ep.ModelSec, ep.StartedAt = j.now.PhaseIndex, j.rng.Float64(), randomTime(j.rng)
	ep.Usage.Requests++
	ep.Trajectories = slices.Clone(ep.Trajectories)
	for _, agent := range []string{"AUSTRIA", "FRANCE", "TURKEY"} {
		if j.rng.IntN(4) == 0 {
			continue
		}
		turn := randomTurn(j.rng)
		if j.rng.IntN(4) > 0 {
			record := j.writer.Answer(pack.JournalAnswer{Agent: agent, Key: "key", Completion: completionOf(turn)})
			if j.rng.IntN(10) == 0 {
				j.writer.Forget()
			} else {
				j.write(record)
			}
		}
		j.add(agent, turn)
	}
	j.now.Game = fmt.Appendf(slices.Clip(j.now.Game[:len(j.now.Game)-j.rng.IntN(2)]), "%d]}", j.rng.IntN(1000))
	switch j.rng.IntN(12) {
	case 0: // another attempt goes on, and writes the phase
		read, err := pack.ReadJournal(j.ref, j.records)
		if err != nil {
			t.Fatal(err)
		}
		j.writer = read.Writer()
	case 1:
		whole, err := j.writer.Game(&j.now)
		if err != nil {
			t.Fatal(err)
		}
		j.records = nil // what was before is void
		j.write(whole)
		return
	}
	if !j.writer.Fits(&j.now) {
		t.Fatal("it does not fit")
	}
	j.write(j.writer.Phase(&j.now))
}

// completionOf is the answer that a turn is made of.
func completionOf(t rollout.Turn) rollout.Completion {
	return rollout.Completion{Text: t.Text, PromptTokenIDs: t.PromptTokenIDs, TokenIDs: t.TokenIDs, Logprobs: t.Logprobs,
		FinishReason: t.FinishReason, Model: "m", CachedTokens: -1, Engine: t.Engine, Timing: t.Timing}
}

func (j *journalled) add(agent string, turn rollout.Turn) {
	ep := &j.now.Episode
	at := slices.IndexFunc(ep.Trajectories, func(t rollout.Trajectory) bool { return t.Agent == agent })
	if at < 0 {
		at = len(ep.Trajectories)
		ep.Trajectories = append(ep.Trajectories, rollout.Trajectory{ID: j.ref.TrajectoryID(agent), Sample: j.ref.Sample,
			Agent: agent})
	}
	of := &ep.Trajectories[at]
	of.Turns = append(slices.Clip(of.Turns), turn)
}

func (j *journalled) check(t *testing.T) {
	t.Helper()
	got, err := pack.ReadJournal(j.ref, j.records)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(*got.Checkpoint, j.now) {
		t.Errorf("phase %d:\n got %+v\nwant %+v", j.now.PhaseIndex, *got.Checkpoint, j.now)
	}
}

func (j *journalled) end(t *testing.T) {
	t.Helper()
	ep := j.now.Episode
	ep.Trajectories = slices.Clone(ep.Trajectories)
	ep.FinishedAt, ep.Truncated, ep.Counts = randomTime(j.rng), true, map[string]int64{"orders": 3}
	for i := range ep.Trajectories {
		ep.Trajectories[i].Reward, ep.Trajectories[i].Truncated = j.rng.Float64(), true
	}
	if !j.writer.CanEnd(&ep) {
		t.Fatal("it cannot end")
	}
	j.write(j.writer.End(&ep))
	got, err := pack.ReadJournal(j.ref, j.records)
	if err != nil {
		t.Fatal(err)
	}
	if got.Finished == nil || !reflect.DeepEqual(*got.Finished, ep) {
		t.Errorf("finished:\n got %+v\nwant %+v", got.Finished, ep)
	}
}

// A turn is written once, and what it takes does not grow with the game.
func TestPhasesOfLongGamesTakeNoMore(t *testing.T) {
	t.Parallel()
	j := newJournalled(1)
	var sizes []int
	for range 200 {
		before := len(j.records)
		j.now.PhaseIndex++
		j.now.Episode.Phases++
		turn := randomTurn(j.rng)
		turn.Timing.Failed = nil
		j.write(j.writer.Answer(pack.JournalAnswer{Agent: "ITALY", Completion: completionOf(turn)}))
		j.add("ITALY", turn)
		j.now.Game = append(j.now.Game, `{"name":"S1901M"},`...)
		j.write(j.writer.Phase(&j.now))
		size := 0
		for _, r := range slices.Compact(slices.Clone(j.records[before:])) {
			size += len(r)
		}
		sizes = append(sizes, size)
	}
	if early, late := slices.Max(sizes[1:20]), slices.Max(sizes[180:]); late > early+16 {
		t.Errorf("a phase takes up to %d bytes at the beginning and %d at the end", early, late)
	}
}

func FuzzReadJournal(f *testing.F) {
	j := newJournalled(5)
	for range 3 {
		j.now.Episode.Phases++
		turn := randomTurn(j.rng)
		j.write(j.writer.Answer(pack.JournalAnswer{Agent: "ITALY", Completion: completionOf(turn)}))
		j.add("ITALY", turn)
		j.write(j.writer.Phase(&j.now))
	}
	for i := range j.records {
		f.Add(i, []byte(j.records[i]))
	}
	f.Add(0, []byte{0xB8, 1, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, at int, b []byte) {
		records := slices.Clone(j.records)
		records[max(0, at)%len(records)] = string(pack.Resealed(b))
		got, err := pack.ReadJournal(j.ref, records)
		if err != nil {
			if !errors.Is(err, pack.ErrCorrupt) {
				t.Error(err)
			}
			return
		}
		if got.Checkpoint != nil { // what was read can be written
			if _, err := pack.Save(got.Checkpoint); err != nil {
				t.Error(err)
			}
		}
	})
}
