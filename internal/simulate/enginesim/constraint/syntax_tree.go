package constraint

// node is an expression over text. It is built by the front ends and read by the builder.
type node struct {
	op    op
	text  string // literal: the bytes; ref: the rule's name
	runes []rune // class: pairs of first and last rune
	subs  []node // seq and alt: the parts; star: the one repeated
}

type op uint8

const (
	opLiteral op = iota // text, exactly; the empty text matches without consuming
	opClass             // one rune out of runes
	opSeq
	opAlt
	opStar
	opBegin // nothing, at the start of the text only
	opEnd   // nothing, at the end of the text only
	opRef   // a rule of the grammar
)

func literal(s string) node    { return node{op: opLiteral, text: s} }
func class(runes []rune) node  { return node{op: opClass, runes: runes} }
func seq(parts ...node) node   { return node{op: opSeq, subs: parts} }
func alt(choices ...node) node { return node{op: opAlt, subs: choices} }
func star(n node) node         { return node{op: opStar, subs: []node{n}} }
func plus(n node) node         { return seq(n, star(n)) }
func optional(n node) node     { return alt(n, literal("")) }
