// Package orderlang is the language in which a power answers: one line per order, each ended by a newline, the sites in
// the order that diplomacy.Options lists them. It writes the language of all legal answers as a regular expression or
// as a grammar, and reads answers back, whether or not they were forced into it.
//
// The language is finite and exact: its words are the legal answers and nothing else. In adjustments a word orders
// as many sites as the power must order and none twice; builds that are given up come last, as WAIVE.
//
// Start reading at Regex and Read; what both notations are written from is in
// finite_language_as_regex_and_grammar.go.
package orderlang

import (
	"github.com/millrace/millrace/internal/game/diplomacy"
)

// Regex is the language as a regular expression over the whole answer, without anchors. It has no repetition and no
// character classes, so that every engine's dialect understands it.
func Regex(m *diplomacy.Map, o diplomacy.Options) string {
	var root expr
	switch {
	case len(o.Sites) == 0:
		root = literal(waives(o))
	case isAdjustment(o):
		root = adjustments(m, o)
	default:
		root = allSites(m, o)
	}
	return string(asRegex.appendTo(nil, root))
}

// Grammar is the language in the EBNF of xgrammar and llama.cpp, starting at root.
func Grammar(m *diplomacy.Map, o diplomacy.Options) string {
	if isAdjustment(o) {
		return string(adjustmentRules(m, o))
	}
	var b, sites []byte
	for i := range o.Sites {
		name := appendRule(nil, 'u', i)
		b = append(append(b, ' '), name...)
		sites = append(append(sites, name...), " ::= "...)
		sites = append(asGrammar.appendTo(sites, site(m, &o.Sites[i])), '\n')
	}
	return "root ::=" + string(b) + "\n" + string(sites)
}

// MaxBytes is the length of the longest word. No tokenizer needs more tokens than that.
func MaxBytes(m *diplomacy.Map, o diplomacy.Options) int {
	total, longest := 0, 0
	var buf []byte
	for i := range o.Sites {
		line := 0
		for _, order := range o.Sites[i].Orders {
			buf = append(m.AppendOrder(buf[:0], order), '\n')
			line = max(line, len(buf))
		}
		total += line
		longest = max(longest, line)
	}
	if isAdjustment(o) {
		return o.Count * max(longest, len(waiveLine))
	}
	return total
}

const waiveLine = "WAIVE\n"

// isAdjustment reports whether only some of the sites take an order.
func isAdjustment(o diplomacy.Options) bool {
	if o.MayWaive {
		return true
	}
	return len(o.Sites) > 0 && len(o.Sites[0].Orders) == 1 && o.Sites[0].Orders[0].Verb == diplomacy.Disband &&
		o.Count < len(o.Sites)
}
