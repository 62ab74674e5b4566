package constraint

import (
	"encoding/binary"
	"errors"
	"slices"
	"sync"
)

// maxEntries bounds the determinised part that one automaton remembers (edges and tokens).
const maxEntries = 1 << 18

// maxWork bounds the states visited to find the tokens of one position; common constraints need
// less than a tenth of it.
const maxWork = 4_000_000

// ErrTooComplex is returned where finding the tokens of one position takes too long.
var ErrTooComplex = errors.New("the constraint is too complex")

// ErrEmpty is returned for a constraint that no text satisfies.
var ErrEmpty = errors.New("no text satisfies the constraint")

// Vocabulary is the byte trie over the tokens of a tokenizer; node 0 is its root.
type Vocabulary interface {
	// Children visits the children of a node whose bytes are in [lo, hi]; token is -1 where none ends.
	Children(node int32, lo, hi byte, visit func(child int32, token int32))
}

// Automaton is a compiled constraint over one vocabulary, safe for concurrent use.
type Automaton struct {
	vocabulary Vocabulary
	nfa        *nfa

	mu      sync.Mutex // guards everything below and the lazy fields of every State
	start   *State
	states  map[string]*State
	entries int
	work    int     // states visited for the present position
	failed  bool    // one position was too complex: all are refused, so that trying again changes nothing
	seen    []int32 // by nfa state: the last closure that held it
	closure int32
}

// State is a position in the text. States stay valid as long as somebody holds them.
type State struct {
	set      []int32
	accept   bool
	edges    []edge
	expanded bool
	tokens   []Token
	walked   bool
}

type edge struct {
	byteRange
	to *State
}

// Token is a token that may come next, and where it leads.
type Token struct {
	ID   int32
	Next *State
}

func newAutomaton(n *nfa, vocabulary Vocabulary) (*Automaton, error) {
	a := &Automaton{vocabulary: vocabulary, nfa: n, seen: make([]int32, len(n.states))}
	a.reset()
	if len(a.start.set) == 0 {
		return nil, ErrEmpty
	}
	return a, nil
}

// reset forgets every determinised state; those in use live on with their holders.
func (a *Automaton) reset() {
	a.states = map[string]*State{}
	a.entries = 0
	a.start = a.intern(a.close([]int32{a.nfa.start}, true))
}

// Start is the state of the empty text.
func (a *Automaton) Start() *State {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.start
}

// Accepts reports whether the text may end here.
func (s *State) Accepts() bool { return s.accept }

// Tokens lists the tokens that may come next, in a fixed order. The caller must not change it.
func (a *Automaton) Tokens(s *State) ([]Token, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.failed {
		return nil, ErrTooComplex
	}
	if s.walked {
		return s.tokens, nil
	}
	if a.entries > maxEntries {
		a.reset()
	}
	a.work = 0
	a.walk(s, s, 0)
	if a.work > maxWork {
		a.failed, s.tokens = true, nil
		return nil, ErrTooComplex
	}
	s.walked = true
	a.entries += len(s.tokens)
	return s.tokens, nil
}

// walk collects into from the tokens below a trie node that the state at allows.
func (a *Automaton) walk(from, at *State, node int32) {
	a.expand(at)
	if a.work > maxWork {
		return
	}
	for _, e := range at.edges {
		a.vocabulary.Children(node, e.lo, e.hi, func(child, token int32) {
			a.work++
			if token >= 0 {
				from.tokens = append(from.tokens, Token{ID: token, Next: e.to})
			}
			a.walk(from, e.to, child)
		})
	}
}

// expand computes the edges of s: disjoint byte ranges in order.
func (a *Automaton) expand(s *State) {
	if s.expanded || a.work > maxWork {
		return
	}
	s.edges = nil
	var cuts []int // the byte positions at which the set of successors changes
	for _, id := range s.set {
		if n := &a.nfa.states[id]; n.kind == kindConsume {
			cuts = append(cuts, int(n.lo), int(n.hi)+1)
		}
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	for i := 0; i+1 < len(cuts) && a.work <= maxWork; i++ {
		r := byteRange{byte(cuts[i]), byte(cuts[i+1] - 1)}
		if to := a.successor(s, r.lo); to != nil {
			s.edges = append(s.edges, edge{r, to})
		}
	}
	a.entries += len(s.edges)
	s.expanded = true
}

func (a *Automaton) successor(s *State, b byte) *State {
	var targets []int32
	a.work += len(s.set)
	for _, id := range s.set {
		if n := &a.nfa.states[id]; n.kind == kindConsume && n.lo <= b && b <= n.hi {
			targets = append(targets, n.next)
		}
	}
	set := a.close(targets, false)
	if len(set) == 0 {
		return nil
	}
	return a.intern(set)
}

// close follows the states that consume nothing and returns, sorted, the live ones that
// matter: those that consume, end, or match.
func (a *Automaton) close(work []int32, atStart bool) []int32 {
	a.closure++
	var set []int32
	for len(work) > 0 {
		id := work[len(work)-1]
		work = work[:len(work)-1]
		if a.seen[id] == a.closure {
			continue
		}
		a.seen[id] = a.closure
		a.work++
		switch n := &a.nfa.states[id]; n.kind {
		case kindSplit:
			work = append(work, n.choices...)
		case kindBegin:
			if atStart {
				work = append(work, n.next)
			}
		case kindMatch, kindConsume, kindEnd:
			if a.nfa.live[id] {
				set = append(set, id)
			}
		}
	}
	slices.Sort(set)
	return set
}

func (a *Automaton) intern(set []int32) *State {
	key := make([]byte, 0, 4*len(set))
	for _, id := range set {
		key = binary.LittleEndian.AppendUint32(key, uint32(id))
	}
	if s, ok := a.states[string(key)]; ok {
		return s
	}
	s := &State{set: set}
	for _, id := range set {
		// A live end leads to the match without consuming.
		s.accept = s.accept || a.nfa.states[id].kind != kindConsume
	}
	a.states[string(key)] = s
	a.entries += len(set)
	return s
}

// Run follows tokens' bytes from s; ok is false where the text leaves the language.
func (a *Automaton) Run(s *State, text string) (at *State, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range len(text) {
		a.work = 0
		a.expand(s)
		j := slices.IndexFunc(s.edges, func(e edge) bool { return e.lo <= text[i] && text[i] <= e.hi })
		if j < 0 {
			return nil, false
		}
		s = s.edges[j].to
	}
	return s, true
}

// Matches reports whether text as a whole is in the language.
func (a *Automaton) Matches(text string) bool {
	at, ok := a.Run(a.Start(), text)
	return ok && at.Accepts()
}
