package constraint

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// parseGrammar reads the EBNF notation of xgrammar: `name ::= expr` rules with "text", [class],
// groups, |, *, +, ?, {m}, {m,}, {m,n} and # comments.
func parseGrammar(text string) (map[string]node, error) {
	p := &grammarParser{text: text}
	rules := map[string]node{}
	for p.space(); p.at < len(p.text); p.space() {
		name := p.name()
		if name == "" {
			return nil, p.errorf("expected the name of a rule")
		}
		if _, again := rules[name]; again {
			return nil, p.errorf("the rule %q is defined twice", name)
		}
		p.space()
		if !p.take("::=") {
			return nil, p.errorf("expected ::= after %q", name)
		}
		body, err := p.alternatives()
		if err != nil {
			return nil, err
		}
		rules[name] = body
	}
	if _, ok := rules["root"]; !ok {
		return nil, fmt.Errorf("the grammar has no rule %q", "root")
	}
	return rules, nil
}

type grammarParser struct {
	text string
	at   int
}

func (p *grammarParser) errorf(format string, args ...any) error {
	line := 1 + strings.Count(p.text[:min(p.at, len(p.text))], "\n")
	return fmt.Errorf("grammar line %d: %s", line, fmt.Sprintf(format, args...))
}

// space skips blanks and comments.
func (p *grammarParser) space() {
	for p.at < len(p.text) {
		switch c := p.text[p.at]; {
		case c == '#':
			end := strings.IndexByte(p.text[p.at:], '\n')
			if end < 0 {
				end = len(p.text) - p.at
			}
			p.at += end
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			p.at++
		default:
			return
		}
	}
}

func (p *grammarParser) take(s string) bool {
	if !strings.HasPrefix(p.text[p.at:], s) {
		return false
	}
	p.at += len(s)
	return true
}

func (p *grammarParser) name() string {
	start := p.at
	for p.at < len(p.text) {
		c := rune(p.text[p.at])
		if c != '_' && c != '-' && c != '.' && (c > unicode.MaxASCII || !unicode.IsLetter(c) && !unicode.IsDigit(c)) {
			break
		}
		p.at++
	}
	return p.text[start:p.at]
}

func (p *grammarParser) alternatives() (node, error) {
	var choices []node
	for {
		n, err := p.sequence()
		if err != nil {
			return node{}, err
		}
		choices = append(choices, n)
		p.space()
		if !p.take("|") {
			return alt(choices...), nil
		}
	}
}

func (p *grammarParser) sequence() (node, error) {
	var parts []node
	for {
		p.space()
		n, ok, err := p.element()
		if err != nil {
			return node{}, err
		}
		if !ok {
			return seq(parts...), nil
		}
		if n, err = p.repeated(n); err != nil {
			return node{}, err
		}
		parts = append(parts, n)
	}
}

// element reads one operand; ok is false where the sequence ends.
func (p *grammarParser) element() (n node, ok bool, err error) {
	if p.at == len(p.text) {
		return node{}, false, nil
	}
	switch c := p.text[p.at]; {
	case c == '"':
		n, err = p.quoted()
	case c == '[':
		n, err = p.class()
	case c == '(':
		n, err = p.group()
	default:
		return p.reference()
	}
	return n, err == nil, err
}

func (p *grammarParser) group() (node, error) {
	p.at++
	n, err := p.alternatives()
	if err != nil {
		return node{}, err
	}
	p.space()
	if !p.take(")") {
		return node{}, p.errorf("expected )")
	}
	return n, nil
}

// reference reads the name of a rule, unless it begins the next definition.
func (p *grammarParser) reference() (node, bool, error) {
	start := p.at
	name := p.name()
	if name == "" {
		if c := p.text[p.at]; c != '|' && c != ')' {
			return node{}, false, p.errorf("unexpected %q", c)
		}
		return node{}, false, nil
	}
	after := p.at
	p.space()
	if strings.HasPrefix(p.text[p.at:], "::=") {
		p.at = start
		return node{}, false, nil
	}
	p.at = after
	return node{op: opRef, text: name}, true, nil
}

func (p *grammarParser) quoted() (node, error) {
	p.at++
	var b strings.Builder
	for p.at < len(p.text) && p.text[p.at] != '\n' {
		if p.take(`"`) {
			return literal(b.String()), nil
		}
		r, err := p.character()
		if err != nil {
			return node{}, err
		}
		b.WriteRune(r)
	}
	return node{}, p.errorf("the text is not closed by a quote")
}

// character reads one rune, escaped or not.
func (p *grammarParser) character() (rune, error) {
	if !strings.HasPrefix(p.text[p.at:], `\`) {
		r, size := utf8.DecodeRuneInString(p.text[p.at:])
		p.at += size
		return r, nil
	}
	if p.at+1 < len(p.text) && strings.IndexByte(`-]["'^\/`, p.text[p.at+1]) >= 0 {
		p.at += 2
		return rune(p.text[p.at-1]), nil
	}
	r, _, tail, err := strconv.UnquoteChar(p.text[p.at:], 0)
	if err != nil {
		return 0, p.errorf("bad escape")
	}
	p.at = len(p.text) - len(tail)
	return r, nil
}

func (p *grammarParser) class() (node, error) {
	p.at++
	negated := p.take("^")
	var runes []rune
	for p.at < len(p.text) && !p.take("]") {
		lo, err := p.character()
		if err != nil {
			return node{}, err
		}
		hi := lo
		if strings.HasPrefix(p.text[p.at:], "-") && !strings.HasPrefix(p.text[p.at:], "-]") {
			p.at++
			if p.at == len(p.text) {
				break
			}
			if hi, err = p.character(); err != nil {
				return node{}, err
			}
		}
		if hi < lo {
			return node{}, p.errorf("the range %c-%c is empty", lo, hi)
		}
		runes = append(runes, lo, hi)
	}
	if p.text[p.at-1] != ']' {
		return node{}, p.errorf("the class is not closed by ]")
	}
	if negated {
		runes = complement(runes)
	}
	return class(runes), nil
}

// complement lists the runes outside the given ranges.
func complement(runes []rune) []rune {
	var out []rune
	for next := rune(0); next <= unicode.MaxRune; {
		lo, hi := rune(unicode.MaxRune+1), rune(-1) // the first range that ends at or after next
		for i := 0; i+1 < len(runes); i += 2 {
			if runes[i+1] >= next && runes[i] < lo {
				lo, hi = runes[i], runes[i+1]
			}
		}
		if lo > next {
			out = append(out, next, lo-1)
		}
		if hi < 0 {
			break
		}
		next = hi + 1
	}
	return out
}

// repeated applies the postfix operators that follow n.
func (p *grammarParser) repeated(n node) (node, error) {
	for p.at < len(p.text) {
		switch {
		case p.take("*"):
			n = star(n)
		case p.take("+"):
			n = plus(n)
		case p.take("?"):
			n = optional(n)
		case p.take("{"):
			var err error
			if n, err = p.counted(n); err != nil {
				return node{}, err
			}
		default:
			return n, nil
		}
	}
	return n, nil
}

// maxRepeat bounds {m,n}, as RE2 does.
const maxRepeat = 1000

func (p *grammarParser) counted(n node) (node, error) {
	end := strings.IndexByte(p.text[p.at:], '}')
	if end < 0 {
		return node{}, p.errorf("expected }")
	}
	least, most, open := strings.Cut(p.text[p.at:p.at+end], ",")
	p.at += end + 1
	lo, err := strconv.Atoi(strings.TrimSpace(least))
	if err != nil || lo < 0 || lo > maxRepeat {
		return node{}, p.errorf("bad repetition {%s}", least)
	}
	parts := make([]node, 0, lo+1)
	for range lo {
		parts = append(parts, n)
	}
	most = strings.TrimSpace(most)
	if !open {
		return seq(parts...), nil
	}
	if most == "" {
		return seq(append(parts, star(n))...), nil
	}
	hi, err := strconv.Atoi(most)
	if err != nil || hi < lo || hi > maxRepeat {
		return node{}, p.errorf("bad repetition {%s,%s}", least, most)
	}
	return seq(append(parts, upTo(n, hi-lo))...), nil
}

// upTo is n repeated at most k times: (n(n(n)?)?)?.
func upTo(n node, k int) node {
	out := literal("")
	for range k {
		out = optional(seq(n, out))
	}
	return out
}
