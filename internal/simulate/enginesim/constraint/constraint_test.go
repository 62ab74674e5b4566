package constraint

import (
	"errors"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/simulate/enginesim/tokenizer"
)

// france is the constraint of France's first turn, as Diplomacy sends it.
const france = `A MAR (H|- (BUR|GAS|PIE|SPA)|S (A MUN - BUR|A PAR - (BUR|GAS)|A VEN - PIE|F BRE - GAS))\n` +
	`A PAR (H|- (BRE|BUR|GAS|PIC)|S (A MAR - (BUR|GAS)|A MUN - BUR|F BRE( - (GAS|PIC))?))\n` +
	`F BRE (H|- (ENG|GAS|MAO|PIC)|S (A MAR - GAS|A PAR - (GAS|PIC)|F LON - ENG))\n`

func TestRegexAgreesWithRegexp(t *testing.T) {
	t.Parallel()
	texts := []string{"", "a", "ab", "abab", "b", "aé", "É", "日本", "x\ny", "-12.5", "A MAR H\n", "aaa", "\U0001F3B2",
		"k", "K", "\u212A"}
	for _, pattern := range []string{
		`a`, `(ab)*`, `(ab)+|b?`, `a.`, `.*`, `(?s).*`, `[^a]*`, `\p{Lu}|[日本]+`, `-?\d+(\.\d+)?`, `(?i)k`, `^a+$`, `(^a|b)*$`,
		`a{2,3}`, `[\x{80}-\x{10FFFF}]`, `(a|ab)(b|)`, france, `(?:)`, `(a*)*`, `((a|b)*ab)+`,
	} {
		c := NewCompiler(tokenizer.New(), 1)
		a, err := c.Regex(pattern)
		if err != nil {
			t.Errorf("%q: %v", pattern, err)
			continue
		}
		oracle := regexp.MustCompile(`\A(?:` + pattern + `)\z`)
		for _, text := range texts {
			if got, want := a.Matches(text), oracle.MatchString(text); got != want {
				t.Errorf("%q matches %q: %t, want %t", pattern, text, got, want)
			}
		}
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	c := NewCompiler(tokenizer.New(), 8)
	for _, tt := range []struct{ name, pattern string }{
		{"syntax", `(a`},
		{"word boundary", `\ba`},
		{"line anchor", `(?m)^a`},
		{"lookahead", `(?=a)`},
		{"too large", strings.Repeat(`(\pL{1000})`, 12)},
	} {
		if _, err := c.Regex(tt.pattern); err == nil {
			t.Errorf("%s: %q is accepted", tt.name, tt.pattern)
		}
	}
	for _, empty := range []string{`a^b`, `a$b`, `[^\x00-\x{10FFFF}]`} {
		if _, err := c.Regex(empty); !errors.Is(err, ErrEmpty) {
			t.Errorf("%q: %v, want ErrEmpty", empty, err)
		}
	}
}

// sample walks the automaton at random and returns a finished text.
func sample(t *testing.T, a *Automaton, tok *tokenizer.Tokenizer, rng *rand.Rand) string {
	t.Helper()
	var text strings.Builder
	s := a.Start()
	for range 400 {
		next, err := a.Tokens(s)
		if errors.Is(err, ErrTooComplex) {
			return ""
		}
		if len(next) == 0 && !s.Accepts() {
			t.Fatalf("dead end after %q", text.String())
		}
		if s.Accepts() && (len(next) == 0 || rng.IntN(4) == 0) {
			return text.String()
		}
		pick := next[rng.IntN(len(next))]
		piece, _ := tok.Piece(pick.ID)
		text.WriteString(piece)
		s = pick.Next
	}
	return ""
}

func TestEverythingSampledMatches(t *testing.T) {
	t.Parallel()
	tok := tokenizer.New()
	c := NewCompiler(tok, 8)
	rng := rand.New(rand.NewPCG(1, 2))
	for _, pattern := range []string{france, `(a|b)*c`, `[a-z]{1,8}@[a-z]+\.(com|org)`, `"([^"\\]|\\.)*"`} {
		a, err := c.Regex(pattern)
		if err != nil {
			t.Fatal(err)
		}
		oracle := regexp.MustCompile(`\A(?:` + pattern + `)\z`)
		for range 200 {
			if text := sample(t, a, tok, rng); text != "" && !oracle.MatchString(text) {
				t.Fatalf("%q does not match %s", text, pattern)
			}
		}
	}
}

func TestTooComplex(t *testing.T) {
	t.Parallel()
	a, err := NewCompiler(tokenizer.New(), 1).Regex(`(\pL*){50}`)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := a.Tokens(a.Start()); !errors.Is(err, ErrTooComplex) {
			t.Errorf("got %v", err)
		}
	}
}

func TestChoice(t *testing.T) {
	t.Parallel()
	a, err := NewCompiler(tokenizer.New(), 1).Choice([]string{"yes", "no", "no (really)"})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{"yes": true, "no": true, "no (really)": true, "": false, "no ": false} {
		if a.Matches(text) != want {
			t.Errorf("%q: want %t", text, want)
		}
	}
	if _, err := NewCompiler(tokenizer.New(), 1).Choice(nil); !errors.Is(err, ErrEmpty) {
		t.Errorf("no choices: %v", err)
	}
}

func TestGrammar(t *testing.T) {
	t.Parallel()
	c := NewCompiler(tokenizer.New(), 8)
	// Two builds on three sites, as the adjustment phase asks.
	builds := `root ::= b0_2
b0_2 ::= s0 b1_1 | b1_2
b1_2 ::= s1 b2_1 | b2_2
b1_1 ::= s1 b2_0 | b2_1
b2_2 ::= s2 b3_1 | b3_2   # comment
b2_1 ::= s2 b3_0 | b3_1
b2_0 ::= b3_0
b3_2 ::= "WAIVE\n" b3_1
b3_1 ::= "WAIVE\n" b3_0
b3_0 ::= ""
s0 ::= ("A" | "F") " BRE B\n"
s1 ::= ("A" | "F") " MAR B\n"
s2 ::= "A PAR B\n"`
	for _, tt := range []struct {
		grammar    string
		good, evil []string
	}{
		{builds, []string{"A BRE B\nF MAR B\n", "A PAR B\nWAIVE\n", "WAIVE\nWAIVE\n"},
			[]string{"A BRE B\n", "A BRE B\nF BRE B\n", "F PAR B\nWAIVE\n"}},
		{`root ::= [0-9]+ ("," root)?`, []string{"1", "12,3,4"}, []string{"", "1,"}},
		{`root ::= [^a-c\n]{2,3} "\u00e9"`, []string{"xyé", "xyzé"}, []string{"xé", "ayé", "wxyzé"}},
		{`root ::= a{2} | a{3,}` + "\na ::= \"x\"", []string{"xx", "xxx", "xxxxx"}, []string{"x", ""}},
	} {
		a, err := c.Grammar(tt.grammar)
		if err != nil {
			t.Errorf("%s: %v", tt.grammar, err)
			continue
		}
		for _, text := range tt.good {
			if !a.Matches(text) {
				t.Errorf("%q is refused by %s", text, tt.grammar)
			}
		}
		for _, text := range tt.evil {
			if a.Matches(text) {
				t.Errorf("%q is accepted by %s", text, tt.grammar)
			}
		}
	}
	for name, grammar := range map[string]string{
		"no root": `a ::= "x"`, "unknown rule": `root ::= b`, "open quote": `root ::= "x`, "open group": `root ::= ("x"`,
		"nested": `root ::= "(" root ")" | "x"`, "left recursion": `root ::= root "x" | "y"`, "twice": "root ::= " +
			"\"x\"\nroot ::= \"y\"", "junk": "root ::= %",
	} {
		if _, err := c.Grammar(grammar); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestCompilerForgets(t *testing.T) {
	t.Parallel()
	c := NewCompiler(tokenizer.New(), 2)
	first, _ := c.Regex("a")
	if again, _ := c.Regex("a"); again != first {
		t.Error("the same constraint is compiled twice")
	}
	_, _ = c.Regex("b")
	_, _ = c.Regex("c")
	if again, _ := c.Regex("a"); again == first {
		t.Error("the oldest constraint is still remembered")
	}
}

func FuzzRegex(f *testing.F) {
	for _, p := range []string{france, `a*`, `(a|b)+c?`, `[^x]{0,3}`, `\d\w\s`, `(?i)straße`} {
		f.Add(p, uint64(1))
	}
	tok := tokenizer.New()
	f.Fuzz(func(t *testing.T, pattern string, seed uint64) {
		oracle, err := regexp.Compile(`\A(?:` + pattern + `)\z`)
		if err != nil || len(pattern) > 64 {
			t.Skip("the oracle knows no such pattern, or it would take long")
		}
		a, err := NewCompiler(tok, 1).Regex(pattern)
		if err != nil {
			t.Skip("vLLM's constraints know fewer patterns than the oracle:", err)
		}
		text := sample(t, a, tok, rand.New(rand.NewPCG(seed, 0)))
		if text != "" && !oracle.MatchString(text) {
			t.Errorf("%q does not match %q", text, pattern)
		}
	})
}

func BenchmarkCompileAndWalk(b *testing.B) {
	tok := tokenizer.New()
	for b.Loop() {
		a, err := NewCompiler(tok, 1).Regex(france)
		if err != nil {
			b.Fatal(err)
		}
		for s := a.Start(); !s.Accepts(); {
			next, _ := a.Tokens(s)
			s = next[len(next)-1].Next
		}
	}
}
