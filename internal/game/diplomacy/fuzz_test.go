package diplomacy

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// wander plays random legal orders from the start and calls see with every position. Moves are likelier than their
// share of the orders, so that units meet.
func wander(seed uint64, phases int, see func(*rand.Rand, *State, []Options)) {
	r := rand.New(rand.NewPCG(seed, 1901))
	m := Standard()
	g, a := NewGenerator(m), NewAdjudicator(m)
	s := NewGame(m)
	for range phases {
		if s.Done() {
			return
		}
		options := g.Options(s)
		see(r, s, options)
		s = a.Process(s, randomOrders(r, options)).Next.Clone()
	}
}

// randomOrders draws orders for every power, Count sites each.
func randomOrders(r *rand.Rand, options []Options) [][]Order {
	orders := make([][]Order, len(options))
	for p, o := range options {
		for _, i := range r.Perm(len(o.Sites))[:o.Count] {
			site := o.Sites[i].Orders
			order := site[r.IntN(len(site))]
			for try := 0; try < 2 && order.Verb != Move && order.Verb != Convoy; try++ {
				order = site[r.IntN(len(site))]
			}
			orders[p] = append(orders[p], order)
		}
	}
	return orders
}

func FuzzAdjudicationIgnoresOrder(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		a, b := NewAdjudicator(Standard()), NewAdjudicator(Standard())
		wander(seed, 60, func(r *rand.Rand, s *State, options []Options) {
			orders := randomOrders(r, options)
			shuffled := make([][]Order, len(orders))
			for p, list := range orders {
				shuffled[p] = slices.Clone(list)
				if s.Phase().Type != Adjustment { // where the first legal orders count
					r.Shuffle(len(list), func(i, j int) { shuffled[p][i], shuffled[p][j] = shuffled[p][j], shuffled[p][i] })
				}
			}
			before := *s
			x, y := a.Process(s, orders), b.Process(s, shuffled)
			if x.Next != y.Next || !slices.Equal(x.Units, y.Units) || !slices.Equal(x.Destroyed, y.Destroyed) {
				t.Errorf("%v: another outcome for the same orders %v in another order", s.Phase(), texts(s, orders))
			}
			if *s != before {
				t.Errorf("%v: Process changed the position", s.Phase())
			}
			checkPosition(t, s, x)
		})
	})
}

// TestPowersAreInterchangeable swaps two powers and expects the same outcome, swapped: nothing depends on who a
// power is.
func TestPowersAreInterchangeable(t *testing.T) {
	t.Parallel()
	a, b := NewAdjudicator(Standard()), NewAdjudicator(Standard())
	for seed := range uint64(20) {
		wander(seed, 40, func(r *rand.Rand, s *State, options []Options) {
			if s.Phase().Type != Movement {
				return
			}
			orders := randomOrders(r, options)
			p, q := Power(r.IntN(7)), Power(r.IntN(7))
			swapped := slices.Clone(orders)
			swapped[p], swapped[q] = orders[q], orders[p]
			other := s.Clone()
			swapPowers(other, p, q)
			x, y := a.Process(s, orders), b.Process(other, swapped)
			swapPowers(&y.Next, p, q)
			if x.Next.units != y.Next.units || x.Next.dislodged != y.Next.dislodged {
				t.Errorf("seed %d %v: the outcome of %v depends on who is who", seed, s.Phase(), texts(s, orders))
			}
		})
	}
}

func swapPowers(s *State, p, q Power) {
	swap := func(at *Power) {
		switch *at {
		case p:
			*at = q
		case q:
			*at = p
		}
	}
	for at := range s.units {
		if s.units[at].Kind != 0 {
			swap(&s.units[at].Power)
		}
		if s.dislodged[at].Kind != 0 {
			swap(&s.dislodged[at].Power)
		}
	}
}

func texts(s *State, orders [][]Order) []string {
	var list []string
	for _, power := range orders {
		for _, o := range power {
			list = append(list, s.Map().OrderString(o))
		}
	}
	return list
}

// checkPosition asserts what holds of every position: a unit stands where its kind can, known to its province only,
// and no unit is lost or made except by the rules.
func checkPosition(t *testing.T, before *State, out *Outcome) {
	t.Helper()
	s, m := &out.Next, Standard()
	for at := range s.units {
		u := s.units[at]
		if (u.Kind != 0) != s.occupied.Has(Province(at)) {
			t.Fatalf("%v: province %d: occupied differs from its unit", s.Phase(), at)
		}
		if u.Kind != 0 && (m.Province(u.Place) != Province(at) || !m.stands(u.Kind, u.Place)) {
			t.Fatalf("%v: %s stands in province %s", s.Phase(), m.UnitString(u), m.ProvinceID(Province(at)))
		}
	}
	if before.Phase().Type != Movement {
		return
	}
	was, is := before.occupied.Len(), s.occupied.Len()+s.uprooted.Len()+len(out.Destroyed)
	if was != is {
		t.Fatalf("%v: %d units became %d", before.Phase(), was, is)
	}
}

func FuzzLegalOrdersRoundTrip(f *testing.F) {
	for seed := range uint64(6) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		m := Standard()
		wander(seed, 40, func(_ *rand.Rand, s *State, options []Options) {
			for _, o := range options {
				for _, site := range o.Sites {
					for _, order := range site.Orders {
						text := m.OrderString(order)
						if got, err := s.ParseOrder(o.Power, text); err != nil || got != order {
							t.Fatalf("%v: legal order %q is parsed as %v: %v", s.Phase(), text, got, err)
						}
					}
				}
			}
		})
	})
}

// TestCheckIsWhatIsListed tries every order that can be written for a unit: Check allows exactly the listed ones.
func TestCheckIsWhatIsListed(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		wander(seed, 25, func(r *rand.Rand, s *State, options []Options) {
			if r.IntN(6) > 0 {
				return
			}
			for _, o := range options {
				for _, site := range o.Sites {
					checkSite(t, s, o.Power, site)
				}
			}
		})
	}
}

func checkSite(t *testing.T, s *State, p Power, site Site) {
	listed := map[Order]bool{}
	for _, o := range site.Orders {
		listed[o] = true
	}
	for _, o := range everyOrder(s, site.Unit) {
		if s.complete(o) != o {
			continue // another way to write another order
		}
		if err := s.Check(p, o); (err == nil) != listed[o] {
			t.Errorf("%v: %s: listed %t, but Check says %v", s.Phase(), s.m.OrderString(o), listed[o], err)
		}
	}
}

// everyOrder is every order that can be written for a unit with the units of the position.
func everyOrder(s *State, u Unit) []Order {
	all := []Order{u.Hold(), u.Disband(), u.Build()}
	for i := range s.m.PlaceCount() {
		dest := Place(i)
		all = append(all, u.Move(dest), u.MoveVia(dest), u.Retreat(dest))
		for v := range s.AllUnits() {
			all = append(all, u.SupportMove(v, dest), u.Convoy(v, dest))
		}
	}
	for v := range s.AllUnits() {
		all = append(all, u.SupportHold(v))
	}
	for kind := Army; kind <= Fleet; kind++ {
		for i := range s.m.PlaceCount() {
			if s.m.Province(Place(i)) == s.m.Province(u.Place) {
				all = append(all, Unit{Kind: kind, Place: Place(i)}.Build())
			}
		}
	}
	return all
}

func FuzzParseOrder(f *testing.F) {
	for _, text := range []string{
		"A PAR - BUR", "F STP/SC S A MOS - LVN", "A LON - NTH - BEL VIA CONVOY", "waive", "/NC", "- - -", "\xff\xfe",
		"Fleet St. Petersburg (nc) to Barents Sea", "BUILD", "A PAR S", "\u2192\u2013", "Ⓐ PAR H", "ſ",
	} {
		f.Add(text)
	}
	s := NewGame(Standard())
	f.Fuzz(func(t *testing.T, text string) {
		o, err := ParseOrder(Standard(), text)
		if err == nil && o.Kind != 0 && (o.AuxKind != 0 || o.Aux == NoPlace) {
			canonical := Standard().OrderString(o)
			if again, err := ParseOrder(Standard(), canonical); err != nil || again != o {
				t.Errorf("%q means %q, which means %v: %v", text, canonical, again, err)
			}
		}
		for p := range Standard().Powers() {
			_, _ = s.ParseOrder(Power(p), text)
		}
	})
}

// FuzzProcess feeds orders of any shape to the adjudicator.
func FuzzProcess(f *testing.F) {
	f.Add(uint64(1), []byte("\x02\x01\x00\x00\x05\x06\x07"))
	f.Fuzz(func(t *testing.T, seed uint64, data []byte) {
		a := NewAdjudicator(Standard())
		orders := make([][]Order, 9) // more powers than there are
		for i := 0; i+7 < len(data); i += 8 {
			d := data[i : i+8]
			p := int(d[0]) % len(orders)
			orders[p] = append(orders[p], Order{
				Verb: Verb(d[1] % 10), Kind: UnitKind(d[2] % 4), Via: d[3]&1 != 0, AuxKind: UnitKind(d[4] % 4),
				Place: Place(d[5]), Aux: Place(d[6]), Dest: Place(d[7]),
			})
		}
		wander(seed, 12, func(_ *rand.Rand, s *State, _ []Options) {
			checkPosition(t, s, a.Process(s, orders))
			for p, list := range orders[:7] {
				for _, o := range list {
					_ = s.Check(Power(p), o)
					_ = s.m.OrderString(o)
				}
			}
		})
	})
}

func FuzzUnmarshalState(f *testing.F) {
	data, err := MarshalState(NewGame(Standard()))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"name":"F1901R","units":{"ITALY":["*A VEN"]},"retreats":{"ITALY":{"A VEN":["APU"]}}}`))
	f.Add([]byte(`{"name":"COMPLETED"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := UnmarshalState(Standard(), data)
		if err != nil {
			return
		}
		NewGenerator(Standard()).Options(s)
		NewAdjudicator(Standard()).Process(s, nil)
		again, err := MarshalState(s)
		if err != nil {
			t.Fatal(err)
		}
		back, err := UnmarshalState(Standard(), again)
		if err != nil || *back != *s {
			t.Errorf("%s became %s: %v", data, again, err)
		}
	})
}

func FuzzCheckMap(f *testing.F) {
	f.Add(standardMap)
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := checkMap(data)
		if err != nil {
			return
		}
		s := NewGame(m)
		NewGenerator(m).Options(s)
		NewAdjudicator(m).Process(s, nil)
		_, _ = s.ParseOrder(0, "A PAR - BUR")
	})
}
