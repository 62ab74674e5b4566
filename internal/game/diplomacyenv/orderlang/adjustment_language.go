package orderlang

import (
	"strconv"
	"strings"

	"github.com/millrace/millrace/internal/game/diplomacy"
)

// waives are the lines of a power that gives up all its builds.
func waives(o diplomacy.Options) string { return strings.Repeat(waiveLine, o.Count) }

// adjustments is the language of exactly Count lines out of the sites, none twice; WAIVE fills up builds.
func adjustments(m *diplomacy.Map, o diplomacy.Options) expr {
	if !o.MayWaive {
		return choose(m, o.Sites, o.Count)
	}
	var list []expr
	for n := min(o.Count, len(o.Sites)); n > 0; n-- {
		built := choose(m, o.Sites, n)
		if n < o.Count {
			built = seq(built, literal(strings.Repeat(waiveLine, o.Count-n)))
		}
		list = append(list, built)
	}
	return alt(append(list, literal(waives(o)))...)
}

// choose is n > 0 lines out of the sites, in order. A plain expression for that doubles with every site; halving
// the sites and splitting n between the halves keeps it polynomial: 17 removals of 34 units are the worst that a
// board can ask.
func choose(m *diplomacy.Map, sites []diplomacy.Site, n int) expr {
	switch n {
	case 1:
		return oneOf(m, sites)
	case len(sites):
		lines := make([]expr, n)
		for i := range sites {
			lines[i] = oneOf(m, sites[i:i+1])
		}
		return seq(lines...)
	}
	half := len(sites) / 2
	left, right := sites[:half], sites[half:]
	var splits []expr
	for k := max(0, n-len(right)); k <= min(n, len(left)); k++ {
		switch k {
		case 0:
			splits = append(splits, choose(m, right, n))
		case n:
			splits = append(splits, choose(m, left, n))
		default:
			splits = append(splits, seq(choose(m, left, k), choose(m, right, n-k)))
		}
	}
	return alt(splits...)
}

// oneOf is one line of any of the sites; all of them end in the same word, B or D.
func oneOf(m *diplomacy.Map, sites []diplomacy.Site) expr {
	var units []expr
	for i := range sites {
		for _, o := range sites[i].Orders {
			units = append(units, literal(unitOf(m, o)))
		}
	}
	return seq(alt(units...), literal(lineEnd(sites)))
}

func unitOf(m *diplomacy.Map, o diplomacy.Order) string {
	return m.UnitString(diplomacy.Unit{Kind: o.Kind, Place: o.Place})
}

func lineEnd(sites []diplomacy.Site) string {
	if sites[0].Orders[0].Verb == diplomacy.Build {
		return " B\n"
	}
	return " D\n"
}

// adjustmentRules is the grammar of the same language: rule b_i_k is k more lines out of the sites from i on.
//
//	b_i_k ::= s_i b_(i+1)_(k-1) | b_(i+1)_k
func adjustmentRules(m *diplomacy.Map, o diplomacy.Options) []byte {
	b := append(appendState([]byte("root ::= "), 0, o.Count), '\n')
	n := len(o.Sites)
	for i := range n {
		b = append(appendRule(b, 's', i), " ::= "...)
		b = append(asGrammar.appendTo(b, oneOf(m, o.Sites[i:i+1])), '\n')
	}
	for i := range n {
		for k := 1; k <= o.Count; k++ {
			if !reachable(o, i, k) {
				continue
			}
			b = append(appendState(b, i, k), " ::= "...)
			b = appendRule(b, 's', i)
			if k > 1 {
				b = appendState(append(b, ' '), i+1, k-1)
			}
			if finishable(o, i+1, k) {
				b = appendState(append(b, " | "...), i+1, k)
			}
			b = append(b, '\n')
		}
	}
	return appendEnds(b, o)
}

// reachable reports whether k more lines can be due at site i at all: i sites leave at least Count-i.
func reachable(o diplomacy.Options, i, k int) bool {
	return k >= o.Count-i && finishable(o, i, k)
}

// finishable reports whether the sites from i on, and waiving, can give k lines.
func finishable(o diplomacy.Options, i, k int) bool {
	return o.MayWaive || len(o.Sites)-i >= k
}

// appendEnds writes the rules of what remains when no line is due, or no site is left.
func appendEnds(b []byte, o diplomacy.Options) []byte {
	n := len(o.Sites)
	for k := max(1, o.Count-n); o.MayWaive && k <= o.Count; k++ {
		b = append(appendState(b, n, k), " ::= "...)
		b = append(asGrammar.appendTo(b, literal(strings.Repeat(waiveLine, k))), '\n')
	}
	return b
}

// appendState names rule b_i_k.
func appendState(b []byte, i, k int) []byte {
	return strconv.AppendInt(append(appendRule(b, 'b', i), '_'), int64(k), 10)
}

func appendRule(b []byte, letter byte, i int) []byte {
	return strconv.AppendInt(append(b, letter, '_'), int64(i), 10)
}
