package constraint

import (
	"fmt"
	"regexp/syntax"
	"slices"
	"unicode"
)

// maxStates bounds the automaton of one constraint; Diplomacy's longest need a few thousand.
const maxStates = 1 << 17

var errTooLarge = fmt.Errorf("the constraint needs more than %d states", maxStates)

// nfaState is one state of a nondeterministic byte automaton.
type nfaState struct {
	kind    nfaKind
	lo, hi  byte    // consume: the bytes taken
	next    int32   // consume, begin, end
	choices []int32 // split
}

type nfaKind uint8

const (
	kindMatch nfaKind = iota
	kindConsume
	kindSplit
	kindBegin
	kindEnd
)

// builder compiles expressions back to front: each is built knowing the state that follows it.
// That lets equal tails share states, and it makes a grammar rule used twice before the same
// continuation one state, so right-recursive rules are loops rather than endless expansion.
type builder struct {
	states  []nfaState
	consume map[consumeKey]int32
	rules   rules
	built   map[ruleUse]int32
}

type consumeKey struct {
	byteRange
	next int32
}

type ruleUse struct {
	rule string
	next int32
}

// nfa is a compiled constraint; state 0 is the match.
type nfa struct {
	states []nfaState
	start  int32
	live   []bool // whether the match can be reached
}

func build(all rules) (*nfa, error) {
	b := &builder{
		states:  []nfaState{{kind: kindMatch}},
		consume: map[consumeKey]int32{},
		rules:   all,
		built:   map[ruleUse]int32{},
	}
	start, err := b.ref("root", 0)
	if err != nil {
		return nil, err
	}
	return &nfa{states: b.states, start: start, live: liveStates(b.states)}, nil
}

func (b *builder) add(s nfaState) (int32, error) {
	if len(b.states) >= maxStates {
		return 0, errTooLarge
	}
	b.states = append(b.states, s)
	return int32(len(b.states) - 1), nil
}

func (b *builder) node(re *syntax.Regexp, next int32) (int32, error) {
	switch re.Op {
	case syntax.OpEmptyMatch:
		return next, nil
	case syntax.OpLiteral:
		return b.literal(re, next)
	case syntax.OpCharClass:
		return b.class(re.Rune, next)
	case syntax.OpAnyCharNotNL:
		return b.class([]rune{0, '\n' - 1, '\n' + 1, unicode.MaxRune}, next)
	case syntax.OpAnyChar:
		return b.class([]rune{0, unicode.MaxRune}, next)
	case syntax.OpBeginText:
		return b.add(nfaState{kind: kindBegin, next: next})
	case syntax.OpEndText:
		return b.add(nfaState{kind: kindEnd, next: next})
	case syntax.OpCapture:
		if len(re.Sub) == 0 {
			return b.ref(re.Name, next)
		}
		return b.node(re.Sub[0], next)
	case syntax.OpConcat:
		return b.seq(re.Sub, next)
	case syntax.OpAlternate, syntax.OpNoMatch: // no choice at all never matches
		return b.alt(re.Sub, next)
	case syntax.OpStar, syntax.OpPlus, syntax.OpQuest:
		return b.repeated(re, next)
	default:
		return 0, fmt.Errorf("%q is not supported in a constraint", re.String())
	}
}

func (b *builder) bytes(r byteRange, next int32) (int32, error) {
	key := consumeKey{r, next}
	if id, ok := b.consume[key]; ok {
		return id, nil
	}
	id, err := b.add(nfaState{kind: kindConsume, lo: r.lo, hi: r.hi, next: next})
	if err == nil {
		b.consume[key] = id
	}
	return id, err
}

func (b *builder) literal(re *syntax.Regexp, next int32) (int32, error) {
	var err error
	for _, r := range slices.Backward(re.Rune) {
		if re.Flags&syntax.FoldCase != 0 {
			next, err = b.class(folded(r), next)
		} else {
			next, err = b.class([]rune{r, r}, next)
		}
		if err != nil {
			return 0, err
		}
	}
	return next, nil
}

func (b *builder) class(runes []rune, next int32) (int32, error) {
	var choices []int32
	var failed error
	for i := 0; i+1 < len(runes); i += 2 {
		utf8Sequences(runes[i], runes[i+1], func(ranges []byteRange) {
			at := next
			for k := len(ranges) - 1; k >= 0 && failed == nil; k-- {
				at, failed = b.bytes(ranges[k], at)
			}
			choices = append(choices, at)
		})
		if failed != nil {
			return 0, failed
		}
	}
	if len(choices) == 1 {
		return choices[0], nil
	}
	return b.add(nfaState{kind: kindSplit, choices: choices})
}

func (b *builder) seq(parts []*syntax.Regexp, next int32) (int32, error) {
	var err error
	for i := len(parts) - 1; i >= 0 && err == nil; i-- {
		next, err = b.node(parts[i], next)
	}
	return next, err
}

func (b *builder) alt(parts []*syntax.Regexp, next int32) (int32, error) {
	choices := make([]int32, len(parts))
	for i, part := range parts {
		id, err := b.node(part, next)
		if err != nil {
			return 0, err
		}
		choices[i] = id
	}
	return b.add(nfaState{kind: kindSplit, choices: choices})
}

// repeated is x*, x+ or x?: a split between x and what follows, to which x comes back unless it may be there once only.
func (b *builder) repeated(re *syntax.Regexp, next int32) (int32, error) {
	split, err := b.add(nfaState{kind: kindSplit})
	if err != nil {
		return 0, err
	}
	after := split
	if re.Op == syntax.OpQuest {
		after = next
	}
	body, err := b.node(re.Sub[0], after)
	if err != nil {
		return 0, err
	}
	b.states[split].choices = []int32{body, next}
	if re.Op == syntax.OpPlus {
		return body, nil
	}
	return split, nil
}

// ref stands a split in for the rule before building it, so that a rule reached again before
// the same continuation refers to itself.
func (b *builder) ref(name string, next int32) (int32, error) {
	use := ruleUse{name, next}
	if id, ok := b.built[use]; ok {
		return id, nil
	}
	body, ok := b.rules[name]
	if !ok {
		return 0, fmt.Errorf("the rule %q is not defined", name)
	}
	id, err := b.add(nfaState{kind: kindSplit})
	if err != nil {
		return 0, err
	}
	b.built[use] = id
	entry, err := b.node(body.Simplify(), next)
	if err != nil {
		return 0, err
	}
	b.states[id].choices = []int32{entry}
	return id, nil
}

// liveStates marks the states from which a match can be reached by consuming text. A begin
// is live nowhere but at the very start, which the automaton's first closure handles; an end
// is live only when nothing needs to be consumed after it.
func liveStates(states []nfaState) []bool {
	before := predecessors(states)
	ends := make([]bool, len(states)) // the match is reachable without consuming
	ends[0] = true
	spread(ends, before, func(i int32) bool { return states[i].kind == kindSplit || states[i].kind == kindEnd })
	live := make([]bool, len(states))
	for i := range states {
		live[i] = i == 0 || states[i].kind == kindEnd && ends[i]
	}
	spread(live, before, func(i int32) bool { return states[i].kind == kindSplit || states[i].kind == kindConsume })
	return live
}

// spread marks every state that leads to a marked one through states that carry the mark.
func spread(marked []bool, before [][]int32, carries func(int32) bool) {
	var work []int32
	for i, m := range marked {
		if m {
			work = append(work, int32(i))
		}
	}
	for len(work) > 0 {
		at := work[len(work)-1]
		work = work[:len(work)-1]
		for _, p := range before[at] {
			if !marked[p] && carries(p) {
				marked[p] = true
				work = append(work, p)
			}
		}
	}
}

// predecessors lists, for each state, the states that lead to it.
func predecessors(states []nfaState) [][]int32 {
	before := make([][]int32, len(states))
	for i, s := range states {
		for _, c := range s.choices {
			before[c] = append(before[c], int32(i))
		}
		if s.kind == kindConsume || s.kind == kindBegin || s.kind == kindEnd {
			before[s.next] = append(before[s.next], int32(i))
		}
	}
	return before
}

// folded lists r and the runes that differ from it by case only, as a class.
func folded(r rune) []rune {
	runes := []rune{r, r}
	for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
		runes = append(runes, f, f)
	}
	return runes
}
