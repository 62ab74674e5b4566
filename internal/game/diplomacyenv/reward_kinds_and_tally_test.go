package diplomacyenv

import (
	"math"
	"testing"

	"github.com/millrace/millrace/internal/game/diplomacy"
)

func stateOf(t *testing.T, p diplomacy.Position) *diplomacy.State {
	t.Helper()
	s, err := diplomacy.NewState(diplomacy.Standard(), p)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func power(t *testing.T, name string) diplomacy.Power {
	t.Helper()
	p, ok := diplomacy.Standard().PowerByName(name)
	if !ok {
		t.Fatal(name)
	}
	return p
}

func centers(n int) []string {
	all := []string{"ANK", "BEL", "BER", "BRE", "BUD", "BUL", "CON", "DEN", "EDI", "GRE", "HOL", "KIE", "LON", "LVP",
		"MAR", "MOS", "MUN", "NAP", "NWY", "PAR"}
	return all[:n]
}

func TestScores(t *testing.T) {
	t.Parallel()
	shared := diplomacy.Position{Phase: "S1904M", Centers: map[string][]string{"FRANCE": {"PAR", "BRE", "MAR"},
		"ITALY": {"ROM"}, "RUSSIA": {"MOS", "SEV"}}}
	solo := diplomacy.Position{Phase: "S1910M", Centers: map[string][]string{"FRANCE": centers(18), "ITALY": {"ROM"}}}
	for _, tt := range []struct {
		name     string
		position diplomacy.Position
		cfg      RewardConfig
		power    string
		want     float64
	}{
		{"share", shared, RewardConfig{Kind: CenterShare}, "FRANCE", 3.0 / 34},
		{"share of none", shared, RewardConfig{Kind: CenterShare}, "TURKEY", 0},
		{"share of a winner", solo, RewardConfig{Kind: CenterShare}, "FRANCE", 18.0 / 34},
		{"the winner takes all", solo, RewardConfig{Kind: CenterShare, SoloTakesAll: true}, "FRANCE", 1},
		{"the others nothing", solo, RewardConfig{Kind: CenterShare, SoloTakesAll: true}, "ITALY", 0},
		{"squares", shared, RewardConfig{Kind: SumOfSquares, SoloTakesAll: true}, "FRANCE", 9.0 / 14},
		{"squares of one", shared, RewardConfig{Kind: SumOfSquares, SoloTakesAll: true}, "ITALY", 1.0 / 14},
		{"draw of three", shared, RewardConfig{Kind: DrawSize, SoloTakesAll: true}, "ITALY", 1.0 / 3},
		{"not in the draw", shared, RewardConfig{Kind: DrawSize, SoloTakesAll: true}, "TURKEY", 0},
		{"draw beside a winner", solo, RewardConfig{Kind: DrawSize}, "ITALY", 1.0 / 2},
		{"nobody has a centre", diplomacy.Position{Phase: "S1910M"}, RewardConfig{Kind: SumOfSquares}, "ITALY", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := tt.cfg.score(stateOf(t, tt.position), power(t, tt.power)); math.Abs(got-tt.want) > 1e-12 {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// One phase worked out by hand: Germany and a supporter drive France out of Burgundy, Italy walks into Tyrolia.
func TestStepScore(t *testing.T) {
	t.Parallel()
	s := stateOf(t, diplomacy.Position{
		Phase:   "S1902M",
		Units:   map[string][]string{"FRANCE": {"A BUR"}, "GERMANY": {"A MUN", "A RUH"}, "ITALY": {"A VEN"}},
		Centers: map[string][]string{"FRANCE": {"PAR", "MAR"}, "GERMANY": {"MUN", "BER"}, "ITALY": {"VEN"}},
	})
	orders := make([][]diplomacy.Order, 7)
	for name, texts := range map[string][]string{"GERMANY": {"A MUN - BUR", "A RUH S A MUN - BUR"},
		"ITALY": {"A VEN - TYR"}} {
		for _, text := range texts {
			o, err := s.ParseOrder(power(t, name), text)
			if err != nil {
				t.Fatal(err)
			}
			orders[power(t, name)] = append(orders[power(t, name)], o)
		}
	}
	out := diplomacy.NewAdjudicator(s.Map()).Process(s, orders)
	c := defaultStepFinal()
	for _, tt := range []struct {
		power string
		want  float64
	}{
		// two centres, both next to BUR; the unit is dislodged and no longer counts
		{"FRANCE", 2*2 - 2*0.3 - 0.5},
		// two centres, MUN next to TYR; two units, both outside home; one unit dislodged; BUR is new
		{"GERMANY", 2*2 + 2*0.3 + 2*0.1 - 0.3 + 0.5 + 0.2},
		{"ITALY", 2 + 0.3 + 0.1 + 0.2},
		{"TURKEY", 0},
	} {
		if got := c.phaseScore(s, out, power(t, tt.power)); math.Abs(got-tt.want) > 1e-12 {
			t.Errorf("%s: got %v, want %v", tt.power, got, tt.want)
		}
	}
}

func TestStepFinalMix(t *testing.T) {
	t.Parallel()
	c := defaultStepFinal()
	c.SoloBonus = 7
	end := stateOf(t, diplomacy.Position{
		Phase: "S1910M", Units: map[string][]string{"FRANCE": {"A PAR", "A BUR"}, "ITALY": {"A ROM"}},
		Centers: map[string][]string{"FRANCE": centers(18), "ITALY": {"ROM"}, "RUSSIA": {"SEV"}},
	})
	for _, tt := range []struct {
		power string
		mean  float64
		want  float64
	}{
		{"FRANCE", 10, 0.8*10 + 0.2*(2*18+2*0.2+0.1+0.5+50+7)},
		{"ITALY", 1, 0.8 + 0.2*(2+0.2+0.5+25) - (17-3)/18.0}, // second, and so is Russia
		{"RUSSIA", 1, 0.8 + 0.2*(2+0.5+25) - (17-3)/18.0},
		{"TURKEY", 0, 0.2*-30 - (18-3)/18.0},
	} {
		if got := c.mix(tt.mean, end, power(t, tt.power)); math.Abs(got-tt.want) > 1e-9 {
			t.Errorf("%s: got %v, want %v", tt.power, got, tt.want)
		}
	}
}
