package constraint

import (
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"

	"github.com/millrace/millrace/internal/rollout"
)

// Compiler compiles constraints for one vocabulary and remembers the latest ones.
// It is safe for concurrent use.
type Compiler struct {
	vocabulary Vocabulary
	capacity   int

	mu     sync.Mutex
	recent []*compiled // the latest used last
}

type compiled struct {
	key       string
	once      sync.Once
	automaton *Automaton
	err       error
}

// NewCompiler remembers up to capacity compiled constraints.
func NewCompiler(v Vocabulary, capacity int) *Compiler {
	return &Compiler{vocabulary: v, capacity: max(capacity, 1)}
}

// Of compiles a turn's constraint; nil: it has none.
func (c *Compiler) Of(turn rollout.Constraint) (*Automaton, error) {
	switch turn.Kind {
	case rollout.RegexConstraint:
		return c.Regex(turn.Pattern)
	case rollout.GrammarConstraint:
		return c.Grammar(turn.Pattern)
	case rollout.ChoiceConstraint:
		return c.Choice(turn.Choices)
	case rollout.Unconstrained:
	}
	return nil, nil
}

// rules are expressions by name. One that captures nothing, by a name, stands for the rule of that name.
type rules map[string]*syntax.Regexp

// Regex compiles an RE2 expression that the whole text must match.
func (c *Compiler) Regex(pattern string) (*Automaton, error) {
	return c.compile("regex:"+pattern, func() (rules, error) {
		re, err := syntax.Parse(pattern, syntax.Perl)
		return rules{"root": re}, err
	})
}

// Choice compiles a list of texts of which one must be given.
func (c *Compiler) Choice(choices []string) (*Automaton, error) {
	var key strings.Builder
	key.WriteString("choice:")
	for _, s := range choices {
		fmt.Fprintf(&key, "%d:%s", len(s), s)
	}
	return c.compile(key.String(), func() (rules, error) {
		root := &syntax.Regexp{Op: syntax.OpAlternate}
		for _, s := range choices {
			root.Sub = append(root.Sub, &syntax.Regexp{Op: syntax.OpLiteral, Rune: []rune(s)})
		}
		return rules{"root": root}, nil
	})
}

// Grammar compiles an EBNF grammar in xgrammar's notation, starting at its rule "root".
// Recursion must be on the right, where it is a loop.
func (c *Compiler) Grammar(text string) (*Automaton, error) {
	return c.compile("grammar:"+text, func() (rules, error) { return parseGrammar(text) })
}

// compile parses and builds outside the lock, once for concurrent callers of one constraint.
func (c *Compiler) compile(key string, parse func() (rules, error)) (*Automaton, error) {
	entry := c.entry(key)
	entry.once.Do(func() {
		var all rules
		if all, entry.err = parse(); entry.err != nil {
			return
		}
		var n *nfa
		if n, entry.err = build(all); entry.err == nil {
			entry.automaton, entry.err = newAutomaton(n, c.vocabulary)
		}
	})
	return entry.automaton, entry.err
}

func (c *Compiler) entry(key string) *compiled {
	c.mu.Lock()
	defer c.mu.Unlock()
	entry := &compiled{key: key}
	if i := slices.IndexFunc(c.recent, func(e *compiled) bool { return e.key == key }); i >= 0 {
		entry = c.recent[i]
		c.recent = slices.Delete(c.recent, i, i+1)
	} else if len(c.recent) == c.capacity {
		c.recent = slices.Delete(c.recent, 0, 1)
	}
	c.recent = append(c.recent, entry)
	return entry
}
