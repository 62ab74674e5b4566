package orderlang

import (
	"math/big"
	"math/rand/v2"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/game/diplomacy"
	"github.com/millrace/millrace/internal/simulate/enginesim/constraint"
	"github.com/millrace/millrace/internal/simulate/enginesim/tokenizer"
)

// positions are what the laws are checked on. The movement of TURKEY in the last one has more legal orders than any
// other in the recorded games.
var positions = map[string]diplomacy.Position{
	"coasts and convoys": {
		Phase: "F1908M",
		Units: map[string][]string{
			"ENGLAND": {"A BEL", "A BRE", "A NWY", "A STP", "A TUN", "F ENG", "F ION", "F MAO", "F NAO", "F NTH",
				"F TYS", "F WES"},
			"FRANCE": {"F SPA/NC", "F POR", "A GAS"}, "RUSSIA": {"F BOT"}, "TURKEY": {"F BUL/EC", "F BLA", "F CON"},
		},
		Centers: map[string][]string{"ENGLAND": {"LON", "EDI"}, "FRANCE": {"POR"}, "RUSSIA": {"MOS"}, "TURKEY": {"CON"}},
	},
	"retreats": {
		Phase:   "F1903R",
		Units:   map[string][]string{"FRANCE": {"A BUR", "F ENG"}, "GERMANY": {"A MUN"}},
		Centers: map[string][]string{"FRANCE": {"PAR"}, "GERMANY": {"BER"}},
		Dislodged: map[string]map[string][]string{"GERMANY": {"A RUH": {"HOL", "KIE"}, "A BER": {}},
			"FRANCE": {"F MAO": {"SPA/NC", "SPA/SC", "POR"}}},
	},
	"builds": {
		Phase: "W1904A",
		Units: map[string][]string{"RUSSIA": {"A UKR"}, "FRANCE": {"F MAO"}, "GERMANY": {"A MUN"}},
		Centers: map[string][]string{"RUSSIA": {"MOS", "SEV", "STP", "WAR"}, "FRANCE": {"BRE", "MAR", "PAR", "SPA"},
			"GERMANY": {"MUN", "BER"}},
	},
	"removals": {
		Phase: "W1904A",
		Units: map[string][]string{"RUSSIA": {"A MOS", "A SEV", "A WAR", "A GAL", "F STP/SC", "F RUM", "F BLA"},
			"TURKEY": {"A CON", "A SMY"}},
		Centers: map[string][]string{"RUSSIA": {"MOS", "WAR", "SEV", "RUM"}, "TURKEY": {"ANK"}},
	},
	"the largest": {
		Phase: "F1914M",
		Units: map[string][]string{
			"FRANCE": {"A PAR", "F BRE"},
			"RUSSIA": {"A BUR", "A DEN", "A HOL", "A KIE", "A LON", "A PIE", "A RUH", "A SWE", "A TYR", "F BAL", "F NAO",
				"F NTH", "F YOR"},
			"TURKEY": {"A BEL", "A GAS", "A MAR", "A PIC", "F AEG", "F ENG", "F GRE", "F ION", "F LVP", "F LYO", "F MAO",
				"F NAF", "F SPA/SC", "F TYS", "F WAL", "F WES"},
		},
		Centers: map[string][]string{
			"FRANCE": {"BRE", "PAR"},
			"RUSSIA": {"BER", "BUD", "DEN", "EDI", "HOL", "KIE", "LON", "MOS", "NWY", "ROM", "SEV", "STP", "SWE",
				"TRI", "VEN", "WAR"},
			"TURKEY": {"ANK", "BEL", "BUL", "CON", "GRE", "LVP", "MAR", "MUN", "NAP", "POR", "RUM", "SER", "SMY",
				"SPA", "TUN", "VIE"},
		},
	},
}

func position(tb testing.TB, name string) *diplomacy.State {
	tb.Helper()
	s, err := diplomacy.NewState(diplomacy.Standard(), positions[name])
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func TestRegexOfFrance1901(t *testing.T) {
	t.Parallel()
	m := diplomacy.Standard()
	france, _ := m.PowerByName("FRANCE")
	o := diplomacy.NewGenerator(m).Options(diplomacy.NewGame(m))[france]
	want := `A MAR (H|- (BUR|GAS|PIE|SPA)|S (A MUN - BUR|A PAR - (BUR|GAS)|A VEN - PIE|F BRE - GAS))\n` +
		`A PAR (H|- (BRE|BUR|GAS|PIC)|S (A MAR - (BUR|GAS)|A MUN - BUR|F BRE( - (GAS|PIC))?))\n` +
		`F BRE (H|- (ENG|GAS|MAO|PIC)|S (A MAR - GAS|A PAR - (GAS|PIC)|F LON - ENG))\n`
	if got := Regex(m, o); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestAdjustmentLanguages(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ position, power, regex, grammar string }{
		{"builds", "GERMANY", `((A BER|F BER) B\n|WAIVE\n)`, `root ::= b_0_1
s_0 ::= ("A BER"|"F BER") " B\n"
b_0_1 ::= s_0 | b_1_1
b_1_1 ::= "WAIVE\n"
`},
		{"builds", "FRANCE",
			`((A BRE|F BRE) B\n(A MAR|F MAR) B\nA PAR B\n|((A MAR|F MAR) B\nA PAR B\n|(A BRE|F BRE) B\n(A MAR|F MAR|A PAR) B\n)WAIVE\n|` +
				`(A BRE|F BRE|A MAR|F MAR|A PAR) B\nWAIVE\nWAIVE\n|WAIVE\nWAIVE\nWAIVE\n)`,
			`root ::= b_0_3
s_0 ::= ("A BRE"|"F BRE") " B\n"
s_1 ::= ("A MAR"|"F MAR") " B\n"
s_2 ::= "A PAR" " B\n"
b_0_3 ::= s_0 b_1_2 | b_1_3
b_1_2 ::= s_1 b_2_1 | b_2_2
b_1_3 ::= s_1 b_2_2 | b_2_3
b_2_1 ::= s_2 | b_3_1
b_2_2 ::= s_2 b_3_1 | b_3_2
b_2_3 ::= s_2 b_3_2 | b_3_3
b_3_1 ::= "WAIVE\n"
b_3_2 ::= "WAIVE\nWAIVE\n"
b_3_3 ::= "WAIVE\nWAIVE\nWAIVE\n"
`},
		{"removals", "TURKEY", `(A CON|A SMY) D\n`, `root ::= b_0_1
s_0 ::= "A CON" " D\n"
s_1 ::= "A SMY" " D\n"
b_0_1 ::= s_0 | b_1_1
b_1_1 ::= s_1
`},
	} {
		t.Run(tt.position+" "+tt.power, func(t *testing.T) {
			t.Parallel()
			s := position(t, tt.position)
			p, _ := s.Map().PowerByName(tt.power)
			o := diplomacy.NewGenerator(s.Map()).Options(s)[p]
			if got := Regex(s.Map(), o); got != tt.regex {
				t.Errorf("regex\n%s\nwant\n%s", got, tt.regex)
			}
			if got := Grammar(s.Map(), o); got != tt.grammar {
				t.Errorf("grammar\n%s\nwant\n%s", got, tt.grammar)
			}
		})
	}
}

// The language is exact: it has as many words as there are legal answers, and every legal answer is one of them.
func TestExact(t *testing.T) {
	t.Parallel()
	for name := range positions {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkExact(t, position(t, name), rand.New(rand.NewPCG(1, 2)))
		})
	}
}

// FuzzExact checks the same on positions that games of random orders come to.
func FuzzExact(f *testing.F) {
	f.Add(uint64(1), uint8(3))
	f.Add(uint64(2), uint8(20))
	f.Fuzz(func(t *testing.T, seed uint64, phases uint8) {
		rng := rand.New(rand.NewPCG(seed, 0))
		m := diplomacy.Standard()
		generator, adjudicator := diplomacy.NewGenerator(m), diplomacy.NewAdjudicator(m)
		s := diplomacy.NewGame(m)
		for range phases % 64 {
			orders := make([][]diplomacy.Order, len(m.Powers()))
			for p, o := range generator.Options(s) {
				orders[p] = randomAnswer(o, rng)
			}
			s = adjudicator.Process(s, orders).Next.Clone()
		}
		checkExact(t, s, rng)
	})
}

const samples = 20 // words drawn from each language

func checkExact(t *testing.T, s *diplomacy.State, rng *rand.Rand) {
	t.Helper()
	m := s.Map()
	compiler := constraint.NewCompiler(tokenizer.New(), 1)
	for _, o := range diplomacy.NewGenerator(m).Options(s) {
		if o.Count == 0 {
			continue
		}
		pattern, grammar := Regex(m, o), Grammar(m, o)
		if len(pattern) > 10_000 || len(grammar) > 10_000 {
			t.Errorf("%s: regex of %d bytes, grammar of %d", m.PowerName(o.Power), len(pattern), len(grammar))
		}
		tree, err := syntax.Parse(pattern, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := words(tree), legalAnswers(o); got.Cmp(want) != 0 {
			t.Errorf("%s: %s words in the language, %s legal answers: %s", m.PowerName(o.Power), got, want, pattern)
		}
		whole := regexp.MustCompile(`^(?:` + pattern + `)$`)
		automaton, err := compiler.Grammar(grammar)
		if err != nil {
			t.Fatalf("%v in %s", err, grammar)
		}
		for range samples {
			legal := text(m, randomAnswer(o, rng))
			if !whole.MatchString(legal) || !automaton.Matches(legal) {
				t.Errorf("%q is legal and not in the language %s", legal, pattern)
			}
			var b strings.Builder
			randomWord(tree, rng, &b)
			checkWord(t, s, o, b.String())
			if !automaton.Matches(b.String()) {
				t.Errorf("%q is in the regular expression and not in the grammar", b.String())
			}
		}
	}
}

// checkWord holds that a word of the language is understood as a full answer, within its bound in length, and that
// writing the orders again gives the word.
func checkWord(t *testing.T, s *diplomacy.State, o diplomacy.Options, word string) {
	t.Helper()
	if n := MaxBytes(s.Map(), o); len(word) > n {
		t.Errorf("%q is longer than %d bytes", word, n)
	}
	r := Read(s, o, word)
	if r.Verdict != Full {
		t.Errorf("%q is in the language but reads as %+v", word, r)
	}
	var again strings.Builder
	for _, order := range r.Orders {
		again.WriteString(s.Map().OrderString(order) + "\n")
	}
	if again.String() != word {
		t.Errorf("%q reads as %q", word, again.String())
	}
}

// randomAnswer draws a legal answer in the order of the sites.
func randomAnswer(o diplomacy.Options, rng *rand.Rand) []diplomacy.Order {
	chosen := rng.Perm(len(o.Sites))
	n := min(o.Count, len(o.Sites))
	if o.MayWaive {
		n = rng.IntN(n + 1)
	}
	chosen = chosen[:n]
	slices.Sort(chosen)
	var orders []diplomacy.Order
	for _, i := range chosen {
		orders = append(orders, o.Sites[i].Orders[rng.IntN(len(o.Sites[i].Orders))])
	}
	for o.MayWaive && len(orders) < o.Count {
		orders = append(orders, diplomacy.WaiveOrder())
	}
	return orders
}

func text(m *diplomacy.Map, orders []diplomacy.Order) string {
	var b strings.Builder
	for _, o := range orders {
		b.WriteString(m.OrderString(o) + "\n")
	}
	return b.String()
}

// legalAnswers counts the ways to choose the sites, and an order for each: the coefficient of x^Count in the product
// of (1 + orders x), or, with waiving, of all powers up to Count.
func legalAnswers(o diplomacy.Options) *big.Int {
	ways := make([]*big.Int, o.Count+1)
	for k := range ways {
		ways[k] = new(big.Int)
	}
	ways[0].SetInt64(1)
	for i := range o.Sites {
		n := big.NewInt(int64(len(o.Sites[i].Orders)))
		for k := o.Count; k > 0; k-- {
			ways[k].Add(ways[k], new(big.Int).Mul(ways[k-1], n))
		}
	}
	if !o.MayWaive {
		return ways[o.Count]
	}
	total := new(big.Int)
	for _, n := range ways {
		total.Add(total, n)
	}
	return total
}

// words counts the words of a pattern, all ways of writing each.
func words(re *syntax.Regexp) *big.Int {
	n := big.NewInt(1)
	switch re.Op {
	case syntax.OpLiteral, syntax.OpEmptyMatch:
	case syntax.OpCharClass:
		n.SetInt64(0)
		for i := 0; i < len(re.Rune); i += 2 {
			n.Add(n, big.NewInt(int64(re.Rune[i+1]-re.Rune[i]+1)))
		}
	case syntax.OpConcat, syntax.OpCapture:
		for _, sub := range re.Sub {
			n.Mul(n, words(sub))
		}
	case syntax.OpAlternate:
		n.SetInt64(0)
		for _, sub := range re.Sub {
			n.Add(n, words(sub))
		}
	case syntax.OpQuest:
		n.Add(n, words(re.Sub[0]))
	default:
		panic("unexpected " + re.String())
	}
	return n
}

func randomWord(re *syntax.Regexp, rng *rand.Rand, b *strings.Builder) {
	switch re.Op {
	case syntax.OpLiteral:
		b.WriteString(string(re.Rune))
	case syntax.OpConcat, syntax.OpCapture:
		for _, sub := range re.Sub {
			randomWord(sub, rng, b)
		}
	case syntax.OpAlternate:
		randomWord(re.Sub[rng.IntN(len(re.Sub))], rng, b)
	case syntax.OpQuest:
		if rng.IntN(2) == 0 {
			randomWord(re.Sub[0], rng, b)
		}
	case syntax.OpCharClass:
		i := 2 * rng.IntN(len(re.Rune)/2)
		b.WriteRune(re.Rune[i] + rng.Int32N(re.Rune[i+1]-re.Rune[i]+1))
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, position, power, answer string
		want                          Verdict
		orders, illegal, missing      int
	}{
		{"full", "retreats", "GERMANY", "A BER D\nA RUH R KIE\n", Full, 2, 0, 0},
		{"variants and blank lines", "retreats", "GERMANY", "\n a ber d\r\n\nA RUH - HOL", Full, 2, 0, 0},
		{"one is missing", "retreats", "GERMANY", "A RUH D", Partial, 1, 0, 1},
		{"the first of two stands", "retreats", "GERMANY", "A RUH R KIE\nA RUH R HOL\nA BER D", Partial, 2, 1, 0},
		{"nothing", "retreats", "GERMANY", " \n\n", Empty, 0, 0, 2},
		{"nothing legal", "retreats", "GERMANY", "I retreat.\nA RUH R MUN", Invalid, 0, 2, 2},
		{"waive counts as an order", "builds", "FRANCE", "A PAR B\nWAIVE\nWAIVE", Full, 3, 0, 0},
		{"no more than are due", "builds", "GERMANY", "A BER B\nWAIVE", Partial, 1, 1, 0},
		{"twice the same home", "builds", "FRANCE", "A BRE B\nF BRE B\nWAIVE", Partial, 2, 1, 1},
		{"one removal too many", "removals", "TURKEY", "A CON D\nA SMY D", Partial, 1, 1, 0},
		{"no bytes are too strange", "removals", "TURKEY", "\xff\x00\nA \xc3( D", Invalid, 0, 2, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := position(t, tt.position)
			p, _ := s.Map().PowerByName(tt.power)
			r := Read(s, diplomacy.NewGenerator(s.Map()).Options(s)[p], tt.answer)
			if r.Verdict != tt.want || len(r.Orders) != tt.orders || r.Illegal != tt.illegal || r.Missing != tt.missing {
				t.Errorf("got %+v, want verdict %d, %d orders, %d illegal, %d missing", r, tt.want, tt.orders,
					tt.illegal, tt.missing)
			}
		})
	}
}

func BenchmarkRegexLargest(b *testing.B) {
	benchmark(b, func(m *diplomacy.Map, o diplomacy.Options) string { return Regex(m, o) })
}

func BenchmarkGrammarLargest(b *testing.B) {
	benchmark(b, func(m *diplomacy.Map, o diplomacy.Options) string { return Grammar(m, o) })
}

func benchmark(b *testing.B, write func(*diplomacy.Map, diplomacy.Options) string) {
	s := position(b, "the largest")
	p, _ := s.Map().PowerByName("TURKEY")
	o := diplomacy.NewGenerator(s.Map()).Options(s)[p]
	size := 0
	b.ReportAllocs()
	for b.Loop() {
		size = len(write(s.Map(), o))
	}
	b.ReportMetric(float64(size), "bytes")
}
