package pack

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"slices"

	"github.com/millrace/millrace/internal/rollout"
)

// A game's journal is a list of records: answers as they came, and after each phase its outcome, which refers to the
// answers that it used instead of repeating them. Each record is written once, so that a phase costs the same in a long
// game as in a short one. A record of the whole game may replace them; records before it are void.
//
// A record is the magic byte, its kind, a checksum and the columns. They are some hundred bytes and stay uncompressed,
// because starting a compressor would cost more than all the rest. A prompt is written as a reference to the start of
// an earlier prompt in the journal, and the rest, with a checksum of its own: a prompt that was put together wrongly is
// never trained on. Records are numbered, so that one that arrives twice, or late, counts once.

const journalMagic = 0xB8

// recordKind is the kind of a journal's record.
type recordKind byte

const (
	recordAnswer recordKind = 1
	recordPhase  recordKind = 2
	recordEnd    recordKind = 3
	recordGame   recordKind = 4 // the game as a whole, as Save packs it
	recordWhole  recordKind = 5 // the finished game as a whole, as Episode packs it
)

const recordHeader = 2 + crc32.Size

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// JournalAnswer is one agent's answer to the request with a key.
type JournalAnswer struct {
	Agent, Key string
	Completion rollout.Completion
}

// journalState is the state that writer and reader share after a record.
type journalState struct {
	next    uint64 // number of the next record
	prompts journalPrompts
	game    []byte                    // after the last phase
	turns   map[string][]rollout.Turn // of each agent's trajectory, so far
	answers []numberedAnswer
}

// numberedAnswer is an answer since the last phase.
type numberedAnswer struct {
	number uint64
	JournalAnswer
}

// journalPrompts are the prompts that the next one may begin like.
type journalPrompts struct {
	last    []int32
	byAgent map[string][]int32
}

// history is them, as the column codec wants it.
func (p *journalPrompts) history(agent string) history {
	return history{agent: agent, last: p.last, previous: map[string][]turns{agent: {{p.byAgent[agent]}}}}
}

func (p *journalPrompts) add(agent string, prompt []int32) {
	if p.byAgent == nil {
		p.byAgent = map[string][]int32{}
	}
	p.last, p.byAgent[agent] = prompt, prompt
}

// JournalWriter makes the records of one game's journal. The zero value begins one that is empty. It is used by one
// goroutine at a time.
type JournalWriter struct {
	state journalState
	alone bool // the next record is to be read without those before it
}

// Forget has the next records not depend on those before, whose fate is not known.
func (w *JournalWriter) Forget() {
	w.state.prompts, w.state.answers, w.alone = journalPrompts{}, nil, true
}

// Answer makes the record of an answer.
func (w *JournalWriter) Answer(a JournalAnswer) []byte {
	var out writer
	w.begin(&out)
	w.state.prompts.answer(codec{w: &out}, &a)
	w.state.answers = append(w.state.answers, numberedAnswer{w.state.next, a})
	w.state.next++
	return sealRecord(recordAnswer, &out)
}

// begin writes a record's number, and whether the prompts before it are forgotten.
func (w *JournalWriter) begin(out *writer) {
	out.uint(w.state.next)
	out.bool(w.alone)
	w.alone = false
}

func (p *journalPrompts) answer(c codec, a *JournalAnswer) {
	name(c, &a.Agent)
	text(c, &a.Key)
	of := &a.Completion
	text(c, &of.Text)
	name(c, &of.FinishReason)
	name(c, &of.Model)
	integer(c, &of.CachedTokens)
	name(c, &of.Engine)
	c.timing(&of.Timing)
	p.turnTokens(c, a.Agent, &of.PromptTokenIDs, &of.TokenIDs, &of.Logprobs)
}

// turnTokens is an agent's prompt, with its checksum, and answer.
func (p *journalPrompts) turnTokens(c codec, agent string, prompt, tokens *[]int32, probs *[]float32) {
	*c.history() = p.history(agent)
	c.prompt(prompt)
	sum := uint64(promptSum(*prompt))
	want := sum
	if c.uint(&sum); c.r != nil && c.r.err == nil && sum != want {
		c.r.fail("prompt that is not what was written")
	}
	c.completion(tokens, probs)
	p.add(agent, *prompt)
}

// answered is what a turn has of its answer, where it is not told by the answer's number.
func (p *journalPrompts) answered(c codec, agent string, t *rollout.Turn) {
	name(c, &t.Engine)
	name(c, &t.FinishReason)
	text(c, &t.Text)
	c.timing(&t.Timing)
	p.turnTokens(c, agent, &t.PromptTokenIDs, &t.TokenIDs, &t.Logprobs)
}

// decided is what a turn has beside its answer.
func (c codec) decided(t *rollout.Turn) {
	name(c, &t.Phase)
	integer(c, &t.PolicyVersion)
	c.float(&t.Reward)
	c.constraint(&t.Constraint)
}

// promptSum is a checksum of a prompt.
func promptSum(ids []int32) uint32 {
	var piece [64 * 4]byte
	sum := uint32(0)
	for len(ids) > 0 {
		n := min(len(ids), len(piece)/4)
		for i, id := range ids[:n] {
			binary.LittleEndian.PutUint32(piece[4*i:], uint32(id))
		}
		sum, ids = crc32.Update(sum, castagnoli, piece[:4*n]), ids[n:]
	}
	return sum
}

// Fits reports whether a checkpoint can be written as what came since the last phase. Another one is written whole.
func (w *JournalWriter) Fits(c *rollout.Checkpoint) bool {
	for i := range c.Episode.Trajectories {
		t := &c.Episode.Trajectories[i]
		if t.ID != usualID(c.Episode.Ref.GroupRef, t) || t.Sample != c.Episode.Ref.Sample ||
			t.Reward != 0 || t.Advantage != 0 || t.Truncated || !w.begins(t) {
			return false
		}
	}
	return true
}

// begins reports whether a trajectory begins with the turns that the journal holds of it: a game may have taken some
// back, and have others in their place.
func (w *JournalWriter) begins(t *rollout.Trajectory) bool {
	held := w.state.turns[t.Agent]
	n := len(held)
	switch {
	case n == 0:
		return true
	case len(t.Turns) < n:
		return false
	}
	x, y := &held[n-1], &t.Turns[n-1] // what comes after a turn that was taken back comes one by one
	return slices.Equal(x.TokenIDs, y.TokenIDs) && sameBits(x.Logprobs, y.Logprobs) &&
		slices.Equal(x.PromptTokenIDs, y.PromptTokenIDs)
}

// Phase encodes a finished phase: the checkpoint after it, as a difference to what the journal holds.
func (w *JournalWriter) Phase(c *rollout.Checkpoint) []byte {
	var out writer
	w.begin(&out)
	out.int(int64(c.PhaseIndex))
	codec{w: &out}.episodeHead(&c.Episode)
	w.gameSince(&out, c.Game)
	count := 0
	for i := range c.Episode.Trajectories {
		t := &c.Episode.Trajectories[i]
		count += len(t.Turns) - len(w.state.turns[t.Agent])
	}
	out.uint(uint64(count))
	for i := range c.Episode.Trajectories {
		t := &c.Episode.Trajectories[i]
		for j := len(w.state.turns[t.Agent]); j < len(t.Turns); j++ {
			w.turn(&out, t.Agent, &t.Turns[j])
		}
	}
	w.took(c)
	w.state.next++
	return sealRecord(recordPhase, &out)
}

// took notes that the journal holds a checkpoint.
func (w *JournalWriter) took(c *rollout.Checkpoint) {
	w.state.game, w.state.answers, w.state.turns = c.Game, nil, map[string][]rollout.Turn{}
	for i := range c.Episode.Trajectories {
		t := &c.Episode.Trajectories[i]
		w.state.turns[t.Agent] = t.Turns
	}
}

// Game makes the record of a checkpoint as a whole.
func (w *JournalWriter) Game(c *rollout.Checkpoint) ([]byte, error) {
	packed, err := Save(c)
	if err != nil {
		return nil, err
	}
	w.took(c)
	return w.whole(recordGame, packed), nil
}

// Whole makes the record of a finished game as a whole.
func (w *JournalWriter) Whole(e *rollout.Episode) ([]byte, error) {
	packed, err := Episode(e)
	if err != nil {
		return nil, err
	}
	return w.whole(recordWhole, packed), nil
}

func (w *JournalWriter) whole(kind recordKind, packed []byte) []byte {
	w.Forget()
	var out writer
	w.begin(&out)
	out.bytes(packed)
	w.state.next++
	return sealRecord(kind, &out)
}

// gameSince writes a game as its difference to the one before: lengths of the common start and end, and the middle.
func (w *JournalWriter) gameSince(out *writer, game []byte) {
	before := w.state.game
	head := commonLength(before, game)
	tail, most := 0, min(len(before), len(game))-head
	for tail < most && before[len(before)-1-tail] == game[len(game)-1-tail] {
		tail++
	}
	out.uint(uint64(head))
	out.uint(uint64(tail))
	out.bytes(game[head : len(game)-tail])
}

// commonLength is how far two texts are alike; bytes.Equal compares the long way in large pieces.
func commonLength(a, b []byte) int {
	const piece = 256
	n := min(len(a), len(b))
	i := 0
	for i+piece <= n && string(a[i:i+piece]) == string(b[i:i+piece]) {
		i += piece
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}

// turn writes a turn: the number of the answer that it was made of, or all of it.
func (w *JournalWriter) turn(out *writer, agent string, t *rollout.Turn) {
	out.name(agent)
	at := slices.IndexFunc(w.state.answers, func(a numberedAnswer) bool { return a.Agent == agent && a.made(t) })
	out.bool(at >= 0)
	if at >= 0 {
		out.uint(w.state.next - w.state.answers[at].number)
	} else {
		w.state.prompts.answered(codec{w: out}, agent, t)
	}
	codec{w: out}.decided(t)
}

// made reports whether a turn is this answer's.
func (a *JournalAnswer) made(t *rollout.Turn) bool {
	c := &a.Completion
	return c.Engine == t.Engine && c.FinishReason == t.FinishReason && c.Text == t.Text &&
		slices.Equal(c.TokenIDs, t.TokenIDs) && sameBits(c.Logprobs, t.Logprobs) &&
		slices.Equal(c.PromptTokenIDs, t.PromptTokenIDs)
}

func sameBits(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}

// CanEnd reports whether an episode can be written as the end of what the journal holds.
func (w *JournalWriter) CanEnd(e *rollout.Episode) bool {
	for i := range e.Trajectories {
		t := &e.Trajectories[i]
		if t.ID != usualID(e.Ref.GroupRef, t) || t.Sample != e.Ref.Sample || len(t.Turns) != len(w.state.turns[t.Agent]) {
			return false
		}
	}
	return true
}

// End makes the record of a finished game, whose turns the journal holds.
func (w *JournalWriter) End(e *rollout.Episode) []byte {
	var out writer
	w.begin(&out)
	codec{w: &out}.episodeHead(e)
	out.uint(uint64(len(e.Trajectories)))
	for i := range e.Trajectories {
		t := &e.Trajectories[i]
		out.name(t.Agent)
		out.float(t.Reward)
		out.float(t.Advantage)
		out.bool(t.Truncated)
	}
	w.state.next++
	return sealRecord(recordEnd, &out)
}

// sealRecord puts the columns behind a header.
func sealRecord(kind recordKind, w *writer) []byte {
	columns := w.join()
	b := make([]byte, recordHeader, recordHeader+len(columns))
	b[0], b[1] = journalMagic, byte(kind)
	binary.LittleEndian.PutUint32(b[2:], crc32.Checksum(columns, castagnoli))
	return append(b, columns...)
}
