package apl

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// parser reads tokens from the front.
type parser struct {
	text   string
	tokens []token
	next   int
}

func (p *parser) peek() token { return p.tokens[p.next] }

func (p *parser) take() token {
	t := p.tokens[p.next]
	if t.kind != endToken {
		p.next++
	}
	return t
}

// is reports whether the next token is one of the signs or words.
func (p *parser) is(words ...string) bool {
	t := p.peek()
	return (t.kind == operatorToken || t.kind == nameToken) && slices.Contains(words, t.text)
}

// accept takes the next token if it is this one.
func (p *parser) accept(word string) bool {
	if p.is(word) {
		p.next++
		return true
	}
	return false
}

func (p *parser) expect(word string) error {
	if !p.accept(word) {
		return p.wrong("want %q", word)
	}
	return nil
}

// wrong is an error at the next token, which it names.
func (p *parser) wrong(format string, args ...any) error {
	t := p.peek()
	found := "the end of the query"
	if t.kind != endToken {
		found = strconv.Quote(t.text + t.unit)
	}
	return fault(p.text, t.at, format+", found %s", append(args, found)...)
}

// expression reads an expression: or binds least.
func (p *parser) expression() (expression, error) { return p.joined(0) }

// levels are the signs between expressions, those that bind least first.
var levels = [][]string{
	{"or"},
	{"and"},
	{"==", "!=", "<", "<=", ">", ">=", "=~", "!~", "contains", "contains_cs", "has", "has_cs", "startswith",
		"startswith_cs", "endswith", "endswith_cs", "matches", "in", "in~", "between", "!"},
	{"+", "-"},
	{"*", "/", "%"},
}

// joined reads expressions with signs of a level between them.
func (p *parser) joined(level int) (expression, error) {
	if level == len(levels) {
		return p.signed()
	}
	left, err := p.joined(level + 1)
	if err != nil {
		return nil, err
	}
	for p.is(levels[level]...) {
		if level == 2 {
			return p.compared(left)
		}
		sign := p.take()
		right, err := p.joined(level + 1)
		if err != nil {
			return nil, err
		}
		left = &binary{place: place(sign.at), sign: sign.text, left: left, right: right}
	}
	return left, nil
}

// compared reads a comparison with what was read before it. Comparisons do not follow one another.
func (p *parser) compared(left expression) (expression, error) {
	sign := p.take()
	word, not := sign.text, false
	if word == "!" {
		not = true
		word = p.take().text
		if !slices.Contains([]string{"contains", "contains_cs", "has", "has_cs", "startswith", "startswith_cs", "endswith",
			"endswith_cs", "in", "in~", "between"}, word) {
			return nil, fault(p.text, sign.at, "after ! want contains, has, startswith, endswith, in or between, found %q", word)
		}
	}
	at := place(sign.at)
	switch word {
	case "between":
		return p.between(left, at, not)
	case "in", "in~":
		if err := p.expect("("); err != nil {
			return nil, err
		}
		list, err := p.arguments()
		return &among{place: at, of: left, list: list, not: not, fold: word == "in~"}, err
	case "matches":
		if err := p.expect("regex"); err != nil {
			return nil, err
		}
	}
	right, err := p.joined(3)
	if err != nil {
		return nil, err
	}
	var e expression = &binary{place: at, sign: word, left: left, right: right}
	if not {
		e = &unary{place: at, sign: "not", of: e}
	}
	return e, nil
}

func (p *parser) between(of expression, at place, not bool) (expression, error) {
	if err := p.expect("("); err != nil {
		return nil, err
	}
	low, err := p.joined(3)
	if err != nil {
		return nil, err
	}
	if err := p.expect(".."); err != nil {
		return nil, err
	}
	high, err := p.joined(3)
	if err != nil {
		return nil, err
	}
	return &between{place: at, of: of, low: low, high: high, not: not}, p.expect(")")
}

// signed reads what may have a minus before it.
func (p *parser) signed() (expression, error) {
	if p.is("-", "+") {
		sign := p.take()
		of, err := p.signed()
		if err != nil || sign.text == "+" {
			return of, err
		}
		return &unary{place: place(sign.at), sign: "-", of: of}, nil
	}
	return p.single()
}

// single reads a literal, a name, a call, or an expression in parentheses, and what is asked of a list or map.
func (p *parser) single() (expression, error) {
	t := p.peek()
	switch {
	case t.kind == stringToken:
		p.take()
		return &literal{place: place(t.at), value: t.text}, nil
	case t.kind == numberToken:
		p.take()
		return p.number(t)
	case p.accept("("):
		e, err := p.expression()
		if err != nil {
			return nil, err
		}
		return e, p.expect(")")
	case t.kind == nameToken && p.tokens[p.next+1].text == "(" && p.tokens[p.next+1].kind == operatorToken:
		return p.call()
	case t.kind == nameToken && (t.text == "true" || t.text == "false"):
		p.take()
		return &literal{place: place(t.at), value: t.text == "true"}, nil
	case t.kind == nameToken || p.is("["):
		return p.field()
	}
	return nil, p.wrong("want a value")
}

// spans are the units that a number may have.
var spans = map[string]time.Duration{
	"d": 24 * time.Hour, "h": time.Hour, "m": time.Minute, "s": time.Second, "ms": time.Millisecond,
	"microsecond": time.Microsecond, "us": time.Microsecond, "ns": 1, "day": 24 * time.Hour, "hour": time.Hour,
	"minute": time.Minute, "second": time.Second, "sec": time.Second, "min": time.Minute,
}

func (p *parser) number(t token) (expression, error) {
	v, err := strconv.ParseFloat(t.text, 64)
	if err != nil {
		return nil, fault(p.text, t.at, "%s is no number", t.text)
	}
	if t.unit == "" {
		return &literal{place: place(t.at), value: v}, nil
	}
	span, known := spans[t.unit]
	if !known {
		return nil, fault(p.text, t.at, "%s%s: want a number, or a span of time such as 30s, 5m, 1h or 7d", t.text, t.unit)
	}
	return &literal{place: place(t.at), value: time.Duration(v * float64(span))}, nil
}

func (p *parser) call() (expression, error) {
	name := p.take()
	p.take() // the parenthesis
	if name.text == "datetime" && p.peek().kind != stringToken {
		return p.datetime(name)
	}
	args, err := p.arguments()
	if err != nil {
		return nil, err
	}
	if name.text == "not" && len(args) == 1 {
		return &unary{place: place(name.at), sign: "not", of: args[0]}, nil
	}
	return &call{place: place(name.at), name: name.text, args: args}, nil
}

// datetime reads a time that is written without quotes.
func (p *parser) datetime(name token) (expression, error) {
	begin := p.peek().at
	for !p.is(")") {
		if p.take().kind == endToken {
			return nil, p.wrong("want a closing parenthesis after datetime(")
		}
	}
	text := strings.TrimSpace(p.text[begin:p.peek().at])
	p.take()
	if text == "null" {
		return &literal{place: place(name.at)}, nil
	}
	at, ok := timeOf(text)
	if !ok {
		return nil, fault(p.text, begin, "%q is no time: want 2006-01-02T15:04:05Z", text)
	}
	return &literal{place: place(name.at), value: at}, nil
}

// arguments reads expressions up to the closing parenthesis, which it takes, too.
func (p *parser) arguments() ([]expression, error) {
	var args []expression
	for !p.accept(")") {
		if len(args) > 0 {
			if err := p.expect(","); err != nil {
				return nil, err
			}
		}
		if p.is("*") {
			args = append(args, &star{place(p.take().at)})
			continue
		}
		arg, err := p.expression()
		if err != nil {
			return nil, err
		}
		args = append(args, arg)
	}
	return args, nil
}

// field reads a name: name, name.name, ['any text'], and what is asked of it in brackets.
func (p *parser) field() (expression, error) {
	at := place(p.peek().at)
	first, err := p.name()
	if err != nil {
		return nil, err
	}
	f := &field{place: at, path: []string{first}}
	var e expression = f
	for {
		switch {
		case p.is(".") && p.tokens[p.next+1].kind == nameToken:
			p.take()
			f.path = append(f.path, p.take().text)
		case p.is("[") && p.tokens[p.next+1].kind == stringToken && e == expression(f):
			name, err := p.name()
			if err != nil {
				return nil, err
			}
			f.path = append(f.path, name)
		case p.accept("["):
			key, err := p.expression()
			if err != nil {
				return nil, err
			}
			if err := p.expect("]"); err != nil {
				return nil, err
			}
			e = &index{place: at, of: e, key: key}
		default:
			return e, nil
		}
	}
}

// name reads one name, plain or in brackets.
func (p *parser) name() (string, error) {
	t := p.peek()
	if t.kind == nameToken {
		return p.take().text, nil
	}
	if err := p.expect("["); err != nil {
		return "", err
	}
	if t = p.take(); t.kind != stringToken {
		p.next--
		return "", p.wrong("want a name in quotes, as in ['my dataset']")
	}
	return t.text, p.expect("]")
}
