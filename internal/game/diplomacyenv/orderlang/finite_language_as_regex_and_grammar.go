package orderlang

// An expr is a finite language: a small tree that is printed as a regular expression or as a grammar.
type expr struct {
	op   op
	text string // of a literal
	subs []expr
}

type op uint8

const (
	opLiteral op = iota
	opSeq
	opAlt
	opOption // subs[0], or nothing
)

func literal(text string) expr { return expr{op: opLiteral, text: text} }

func seq(subs ...expr) expr { return expr{op: opSeq, subs: subs} }

// alt is any of subs; an alternative among them gives its own in its place.
func alt(subs ...expr) expr {
	if len(subs) == 1 {
		return subs[0]
	}
	flat := make([]expr, 0, len(subs))
	for _, sub := range subs {
		if sub.op == opAlt {
			flat = append(flat, sub.subs...)
			continue
		}
		flat = append(flat, sub)
	}
	return expr{op: opAlt, subs: flat}
}

func option(sub expr) expr { return expr{op: opOption, subs: []expr{sub}} }

// notation is how an expression is written.
type notation struct{ quote, between string }

// As a regular expression, in which orders have no character that means anything, or as the right side of a grammar's
// rule.
var (
	asRegex   = notation{}
	asGrammar = notation{quote: `"`, between: " "}
)

// appendTo prints e. The newline is written as an escape, since some engines read patterns line by line.
func (n notation) appendTo(b []byte, e expr) []byte {
	switch e.op {
	case opLiteral:
		return append(appendEscaped(append(b, n.quote...), e.text), n.quote...)
	case opSeq:
		return n.appendAll(b, e.subs, n.between)
	case opAlt:
		return append(n.appendAll(append(b, '('), e.subs, "|"), ')')
	case opOption:
		return append(n.appendAll(append(b, '('), e.subs, "|"), ")?"...)
	}
	return b
}

func (n notation) appendAll(b []byte, subs []expr, between string) []byte {
	for i, sub := range subs {
		if i > 0 {
			b = append(b, between...)
		}
		b = n.appendTo(b, sub)
	}
	return b
}

func appendEscaped(b []byte, text string) []byte {
	for i := range len(text) {
		if text[i] == '\n' {
			b = append(b, `\n`...)
			continue
		}
		b = append(b, text[i])
	}
	return b
}
