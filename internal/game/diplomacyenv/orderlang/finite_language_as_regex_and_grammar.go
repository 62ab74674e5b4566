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

// appendRegex prints e. Orders have no character that means anything in a regular expression; the newline is
// written as an escape, since some engines read patterns line by line.
func appendRegex(b []byte, e expr) []byte {
	switch e.op {
	case opLiteral:
		return appendEscaped(b, e.text)
	case opSeq:
		for _, sub := range e.subs {
			b = appendRegex(b, sub)
		}
		return b
	case opAlt:
		return append(appendRegexAlt(append(b, '('), e.subs), ')')
	case opOption:
		return append(appendRegexAlt(append(b, '('), e.subs), ")?"...)
	}
	return b
}

func appendRegexAlt(b []byte, subs []expr) []byte {
	for i, sub := range subs {
		if i > 0 {
			b = append(b, '|')
		}
		b = appendRegex(b, sub)
	}
	return b
}

// appendGrammar prints e as the right side of a rule.
func appendGrammar(b []byte, e expr) []byte {
	switch e.op {
	case opLiteral:
		return append(appendEscaped(append(b, '"'), e.text), '"')
	case opSeq:
		for i, sub := range e.subs {
			if i > 0 {
				b = append(b, ' ')
			}
			b = appendGrammar(b, sub)
		}
		return b
	case opAlt:
		return append(appendGrammarAlt(append(b, '('), e.subs), ')')
	case opOption:
		return append(appendGrammarAlt(append(b, '('), e.subs), ")?"...)
	}
	return b
}

func appendGrammarAlt(b []byte, subs []expr) []byte {
	for i, sub := range subs {
		if i > 0 {
			b = append(b, '|')
		}
		b = appendGrammar(b, sub)
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
