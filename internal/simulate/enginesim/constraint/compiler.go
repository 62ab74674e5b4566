package constraint

import (
	"container/list"
	"fmt"
	"strings"
	"sync"
)

// Compiler compiles constraints for one vocabulary and remembers the latest ones.
// It is safe for concurrent use.
type Compiler struct {
	vocabulary Vocabulary
	capacity   int

	mu     sync.Mutex
	recent *list.List // of *compiled, the latest used first
	byText map[string]*list.Element
}

type compiled struct {
	key       string
	once      sync.Once
	automaton *Automaton
	err       error
}

// NewCompiler remembers up to capacity compiled constraints.
func NewCompiler(v Vocabulary, capacity int) *Compiler {
	return &Compiler{vocabulary: v, capacity: max(capacity, 1), recent: list.New(), byText: map[string]*list.Element{}}
}

// Regex compiles an RE2 expression that the whole text must match.
func (c *Compiler) Regex(pattern string) (*Automaton, error) {
	return c.compile("regex:"+pattern, func() (node, map[string]node, error) {
		n, err := parseRegex(pattern)
		return n, nil, err
	})
}

// Choice compiles a list of texts of which one must be given.
func (c *Compiler) Choice(choices []string) (*Automaton, error) {
	var key strings.Builder
	key.WriteString("choice:")
	for _, s := range choices {
		fmt.Fprintf(&key, "%d:%s", len(s), s)
	}
	return c.compile(key.String(), func() (node, map[string]node, error) {
		literals := make([]node, len(choices))
		for i, s := range choices {
			literals[i] = literal(s)
		}
		return alt(literals...), nil, nil
	})
}

// Grammar compiles an EBNF grammar in xgrammar's notation, starting at its rule "root".
// Recursion must be on the right, where it is a loop.
func (c *Compiler) Grammar(text string) (*Automaton, error) {
	return c.compile("grammar:"+text, func() (node, map[string]node, error) {
		rules, err := parseGrammar(text)
		return node{op: opRef, text: "root"}, rules, err
	})
}

// compile parses and builds outside the lock, once for concurrent callers of one constraint.
func (c *Compiler) compile(key string, parse func() (node, map[string]node, error)) (*Automaton, error) {
	entry := c.entry(key)
	entry.once.Do(func() {
		root, rules, err := parse()
		if err != nil {
			entry.err = err
			return
		}
		n, err := build(root, rules)
		if err != nil {
			entry.err = err
			return
		}
		entry.automaton, entry.err = newAutomaton(n, c.vocabulary)
	})
	return entry.automaton, entry.err
}

func (c *Compiler) entry(key string) *compiled {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.byText[key]; ok {
		c.recent.MoveToFront(e)
		return e.Value.(*compiled)
	}
	entry := &compiled{key: key}
	c.byText[key] = c.recent.PushFront(entry)
	if c.recent.Len() > c.capacity {
		oldest := c.recent.Remove(c.recent.Back()).(*compiled)
		delete(c.byText, oldest.key)
	}
	return entry
}
