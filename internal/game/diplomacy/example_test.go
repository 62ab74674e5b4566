package diplomacy_test

import (
	"fmt"

	"github.com/millrace/millrace/internal/game/diplomacy"
)

func Example() {
	m := diplomacy.Standard()
	s := diplomacy.NewGame(m)
	france, _ := m.PowerByName("FRANCE")

	options := diplomacy.NewGenerator(m).Options(s)
	for _, site := range options[france].Sites {
		fmt.Printf("%s has %d legal orders\n", m.UnitString(site.Unit), len(site.Orders))
	}

	orders := make([][]diplomacy.Order, len(m.Powers()))
	for _, text := range []string{"A Paris to Burgundy", "A MAR S A PAR - BUR", "F BRE - LON"} {
		o, err := s.ParseOrder(france, text)
		if err != nil {
			fmt.Println(err)
		}
		orders[france] = append(orders[france], o)
	}
	out := diplomacy.NewAdjudicator(m).Process(s, orders)
	for _, u := range out.Units {
		if u.Unit.Power == france {
			fmt.Println(m.OrderString(u.Order), u.Result.Words())
		}
	}
	fmt.Println(out.Next.Phase())
	// Output:
	// A MAR has 10 legal orders
	// A PAR has 11 legal orders
	// F BRE has 9 legal orders
	// F BRE - LON: the destination is not next to the unit
	// F BRE H [void]
	// A MAR S A PAR - BUR []
	// A PAR - BUR []
	// F1901M
}
