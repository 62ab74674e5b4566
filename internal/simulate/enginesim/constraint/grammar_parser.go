package constraint

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
)

// grammarToken is a token of xgrammar's notation of EBNF, after blanks and # comments: `name ::= expr` rules with
// "text", [class], groups, |, *, +, ?, {m}, {m,} and {m,n}.
var grammarToken = regexp.MustCompile(
	`^(?:\s|#[^\n]*)*(::=|[\w./$-]+|"(?:\\.|[^"\\\n])*"|\[(?:\\.|[^\]\\])*\]|\{[^}]*\}|[|()*+?]|$)`)

// parseGrammar reads a grammar, of which the rule "root" is the whole text.
func parseGrammar(text string) (rules, error) {
	p := &grammarParser{text: text}
	if err := p.split(); err != nil {
		return nil, err
	}
	all := rules{}
	for p.at = 0; p.token(0) != ""; {
		name := p.token(0)
		if p.token(1) != "::=" {
			return nil, p.errorf("expected a rule, NAME ::=")
		}
		if all[name] != nil {
			return nil, p.errorf("the rule %q is defined twice", name)
		}
		p.at += 2
		body, err := p.alternatives()
		if err != nil {
			return nil, err
		}
		all[name] = body
	}
	if all["root"] == nil {
		return nil, errors.New(`the grammar has no rule "root"`)
	}
	return all, nil
}

type grammarParser struct {
	text   string
	tokens []string
	ends   []int // of the tokens, in the text
	at     int   // the present token
}

// split cuts the text into tokens.
func (p *grammarParser) split() error {
	for end := 0; end < len(p.text); {
		found := grammarToken.FindStringSubmatchIndex(p.text[end:])
		if found == nil {
			p.at = len(p.tokens)
			return p.errorf("unexpected %.20q", strings.TrimSpace(p.text[end:]))
		}
		p.tokens = append(p.tokens, p.text[end+found[2]:end+found[3]])
		end += found[1]
		p.ends = append(p.ends, end)
	}
	return nil
}

// token is the present token, or one after it; empty behind the last.
func (p *grammarParser) token(ahead int) string {
	if p.at+ahead >= len(p.tokens) {
		return ""
	}
	return p.tokens[p.at+ahead]
}

func (p *grammarParser) errorf(format string, args ...any) error {
	end := len(p.text)
	if p.at < len(p.ends) {
		end = p.ends[p.at]
	}
	return fmt.Errorf("grammar line %d: %s", 1+strings.Count(p.text[:end], "\n"), fmt.Sprintf(format, args...))
}

func (p *grammarParser) alternatives() (*syntax.Regexp, error) {
	choices := &syntax.Regexp{Op: syntax.OpAlternate}
	for {
		one, err := p.sequence()
		if err != nil {
			return nil, err
		}
		choices.Sub = append(choices.Sub, one)
		if p.token(0) != "|" {
			return choices, nil
		}
		p.at++
	}
}

func (p *grammarParser) sequence() (*syntax.Regexp, error) {
	parts := &syntax.Regexp{Op: syntax.OpConcat}
	for {
		token := p.token(0)
		if token == "" || token == "|" || token == ")" || p.token(1) == "::=" {
			return parts, nil
		}
		part, err := p.element()
		if err != nil {
			return nil, err
		}
		parts.Sub = append(parts.Sub, part)
	}
}

// element reads one operand with the operators that follow it.
func (p *grammarParser) element() (*syntax.Regexp, error) {
	token := p.token(0)
	p.at++
	var re *syntax.Regexp
	var err error
	switch token[0] {
	case '"':
		re, err = syntax.Parse(asRE2(token[1:len(token)-1], regexp.QuoteMeta), syntax.Perl)
	case '[':
		re, err = syntax.Parse(asRE2(token, strings.Clone), syntax.Perl)
	case '(':
		re, err = p.alternatives()
		if err == nil && p.token(0) != ")" {
			return nil, p.errorf("expected )")
		}
		p.at++
	case '*', '+', '?', '{', ':':
		return nil, p.errorf("unexpected %s", token)
	default:
		re = &syntax.Regexp{Op: syntax.OpCapture, Name: token} // stands for the rule
	}
	if err != nil {
		return nil, err
	}
	return p.repeated(re)
}

// escapes are the escapes of a text or a class, and the characters that are none.
var escapes = regexp.MustCompile(`\\u[0-9a-fA-F]{4}|\\U[0-9a-fA-F]{8}|\\.|[^\\]`)

// asRE2 writes a text or a class as RE2 does: it knows all escapes but those of Unicode.
func asRE2(text string, plain func(string) string) string {
	return escapes.ReplaceAllStringFunc(text, func(c string) string {
		switch {
		case c[0] != '\\':
			return plain(c)
		case c[1] == 'u' || c[1] == 'U':
			return `\x{` + c[2:] + "}"
		}
		return c
	})
}

// maxRepeat bounds {m,n}, as RE2 does.
const maxRepeat = 1000

var repetition = regexp.MustCompile(`^\{\s*(\d+)\s*(,?)\s*(\d*)\s*\}$`)

// repeated applies the postfix operators that follow an expression.
func (p *grammarParser) repeated(re *syntax.Regexp) (*syntax.Regexp, error) {
	for ; ; p.at++ {
		again := &syntax.Regexp{Sub: []*syntax.Regexp{re}}
		switch token := p.token(0); {
		case token == "*":
			again.Op = syntax.OpStar
		case token == "+":
			again.Op = syntax.OpPlus
		case token == "?":
			again.Op = syntax.OpQuest
		case strings.HasPrefix(token, "{"):
			again.Op = syntax.OpRepeat
			var ok bool
			if again.Min, again.Max, ok = bounds(token); !ok {
				return nil, p.errorf("bad repetition %s", token)
			}
		default:
			return re, nil
		}
		re = again
	}
}

// bounds reads {m}, {m,} or {m,n}; without an end it is -1.
func bounds(token string) (least, most int, ok bool) {
	part := repetition.FindStringSubmatch(token)
	if part == nil {
		return 0, 0, false
	}
	least, _ = strconv.Atoi(part[1]) // too large a number is as large as there are
	most = least
	switch {
	case part[3] != "":
		most, _ = strconv.Atoi(part[3])
	case part[2] != "":
		most = -1
	}
	return least, most, least <= maxRepeat && most <= maxRepeat && (most < 0 || least <= most)
}
