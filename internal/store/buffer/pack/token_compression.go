package pack

import (
	"encoding/binary"
	"math"
)

// history remembers the prompts that the next one is likely to begin like: the same agent's
// previous turn, and the same turn of the same agent in the previous episode, which a fork shares until
// the games part. Writer and reader keep the same history.
type history struct {
	agent    string
	turn     int
	last     []int32            // the prompt before this one, of any agent
	previous map[string][]turns // by agent: its last two trajectories, the current one at the end
	ids      uint64             // in all prompts so far
}

// turns is the prompts of one trajectory.
type turns [][]int32

func (h *history) start(agent string) {
	if h.previous == nil {
		h.previous = map[string][]turns{}
	}
	h.agent, h.turn = agent, 0
	h.previous[agent] = append(h.previous[agent], nil)
	if n := len(h.previous[agent]); n > 2 {
		h.previous[agent] = h.previous[agent][n-2:]
	}
}

// candidates are the prompts to compare with, at most three.
func (h *history) candidates() [3][]int32 {
	var c [3][]int32
	c[0] = h.last
	mine := h.previous[h.agent]
	current := mine[len(mine)-1]
	if len(current) > 0 {
		c[1] = current[len(current)-1]
	}
	if len(mine) == 2 && h.turn < len(mine[0]) {
		c[2] = mine[0][h.turn]
	}
	return c
}

func (h *history) add(prompt []int32) {
	mine := h.previous[h.agent]
	mine[len(mine)-1] = append(mine[len(mine)-1], prompt)
	h.last = prompt
	h.turn++
	h.ids += uint64(len(prompt))
}

// prompt writes which earlier prompt this one begins like, for how long, and the rest.
func (w *writer) prompt(ids []int32) {
	best, shared := 0, 0
	for i, c := range w.history.candidates() {
		if n := commonPrefix(c, ids); n > shared {
			best, shared = i, n
		}
	}
	w.history.add(ids)
	w.uint(uint64(best))
	w.uint(uint64(shared))
	w.uint(uint64(len(ids) - shared))
	for _, id := range ids[shared:] {
		w.prompts = binary.AppendVarint(w.prompts, int64(id))
	}
}

func (r *reader) prompt() []int32 {
	best, shared, rest := r.uint(), r.uint(), r.uint()
	if best > 2 || rest > uint64(len(r.prompts)) {
		r.fail("prompt")
		return []int32{}
	}
	like := r.history.candidates()[best]
	if shared > uint64(len(like)) || r.history.ids+shared+rest > maxPromptIDs {
		r.fail("prompt prefix")
		return []int32{}
	}
	ids := make([]int32, shared+rest)
	copy(ids, like[:shared])
	for i := shared; i < shared+rest; i++ {
		ids[i] = r.token(&r.prompts)
	}
	r.history.add(ids)
	return ids
}

func (w *writer) completion(ids []int32, probs []float32) {
	w.uint(uint64(len(ids)))
	for _, id := range ids {
		w.tokens = binary.AppendVarint(w.tokens, int64(id))
	}
	w.uint(uint64(len(probs)))
	w.probs = append(w.probs, probs...)
}

func (r *reader) completion() ([]int32, []float32) {
	n := r.uint()
	if n > uint64(len(r.tokens)) {
		r.fail("completion")
		return []int32{}, []float32{}
	}
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = r.token(&r.tokens)
	}
	n = r.uint()
	if n > uint64(r.probCount-r.probNext) {
		r.fail("log-probabilities")
		return ids, []float32{}
	}
	probs := make([]float32, n)
	for i := range probs {
		probs[i] = r.prob(r.probNext + i)
	}
	r.probNext += len(probs)
	return ids, probs
}

// prob is the i-th log-probability, from its four byte planes.
func (r *reader) prob(i int) float32 {
	n := r.probCount
	return math.Float32frombits(uint32(r.probs[i])<<24 | uint32(r.probs[n+i])<<16 |
		uint32(r.probs[2*n+i])<<8 | uint32(r.probs[3*n+i]))
}

func (r *reader) token(column *[]byte) int32 {
	v, n := binary.Varint(*column)
	if n <= 0 || v < math.MinInt32 || v > math.MaxInt32 {
		r.fail("token id")
		return 0
	}
	*column = (*column)[n:]
	return int32(v)
}

func commonPrefix(a, b []int32) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
