package diplomacy

// Options is what one power may order in one phase.
type Options struct {
	Power Power
	// Sites are the things to give an order to: the power's units in movement, its dislodged units in retreats, and in
	// adjustments its free home centres or, when it must remove, its units. A site takes at most one order.
	Sites []Site
	// Count is how many sites take an order: all of them, except in adjustments.
	Count int
	// MayWaive says that WAIVE may stand in for any of the Count orders: these are builds.
	MayWaive bool
}

// A Site is a unit, or a free home centre, with the orders that it may be given.
type Site struct {
	Unit   Unit // for a build: the centre as Place, and no Kind
	Orders []Order
}

// A Generator lists legal orders. It reuses its memory: what it returns is valid until its next call. One Generator
// serves one goroutine.
type Generator struct {
	m       *Map
	options []Options
	sites   []Site
	orders  []Order
	begins  []int // where in orders each site begins
	armies  ProvinceSet
	fleets  ProvinceSet
	goes    [MaxProvinces]ProvinceSet // where the unit in a province could move to, by convoy too
	convoys convoyFinder
}

// NewGenerator makes a Generator for positions on m.
func NewGenerator(m *Map) *Generator {
	return &Generator{m: m, options: make([]Options, len(m.powers))}
}

// Options lists what every power may order in position s, indexed by Power. Sites are in the order of their text; a
// unit's orders are hold, moves, moves by convoy, supports, convoys, each in map order.
func (g *Generator) Options(s *State) []Options {
	g.sites, g.orders, g.begins = g.sites[:0], g.orders[:0], g.begins[:0]
	if s.phase.Type == Movement {
		g.survey(s)
	}
	for p := range g.options {
		o := &g.options[p]
		*o = Options{Power: Power(p)}
		first := len(g.sites)
		switch s.phase.Type {
		case Movement:
			g.addMovement(s, o)
		case Retreats:
			g.addRetreats(s, o)
		case Adjustment:
			g.addAdjustments(s, o)
		}
		// Sites may still move as it grows; only the length counts until slice puts it right.
		o.Sites = g.sites[first:]
	}
	g.slice()
	return g.options
}

// slice points every power at its sites and every site at its orders, now that neither list grows any more.
func (g *Generator) slice() {
	at := 0
	for p := range g.options {
		n := len(g.options[p].Sites)
		g.options[p].Sites = g.sites[at : at+n : at+n]
		at += n
	}
	end := len(g.orders)
	for i := len(g.sites) - 1; i >= 0; i-- {
		g.sites[i].Orders = g.orders[g.begins[i]:end:end]
		end = g.begins[i]
	}
}

func (g *Generator) begin(u Unit) {
	g.sites = append(g.sites, Site{Unit: u})
	g.begins = append(g.begins, len(g.orders))
}

func (g *Generator) add(o Order) { g.orders = append(g.orders, o) }

// survey notes what every unit's orders depend on.
func (g *Generator) survey(s *State) {
	g.armies, g.fleets = ProvinceSet{}, ProvinceSet{}
	for at := range s.occupied.All() {
		u := &s.units[at]
		g.goes[at] = g.m.reach[u.Kind][u.Place]
		if u.Kind == Army {
			g.armies.Add(at)
		} else {
			g.fleets.Add(at)
		}
	}
	g.convoys.find(g.m, &g.armies, &g.fleets)
	for at := range g.armies.All() {
		if g.m.coastal.Has(at) {
			via := g.convoys.reach(at)
			g.goes[at] = g.goes[at].union(&via)
		}
	}
}

func (g *Generator) addMovement(s *State, o *Options) {
	for u := range s.Units(o.Power) {
		g.begin(u)
		g.add(u.Hold())
		for _, dest := range g.m.moves[u.Kind][u.Place] {
			g.add(u.Move(dest))
		}
		at := g.m.provOf[u.Place]
		if u.Kind == Army && g.m.coastal.Has(at) {
			for dest := range g.convoys.reach(at).All() {
				g.add(u.MoveVia(Place(dest)))
			}
		}
		g.addSupports(s, u)
		if u.Kind == Fleet && g.m.seas.Has(at) {
			g.addConvoys(s, u)
		}
		o.Count++
	}
}

// addSupports lists what u may support: any other unit where it stands, if u could move there, and any move of another
// unit to where u could move. A fleet cannot support a convoyed move that needs the fleet itself.
func (g *Generator) addSupports(s *State, u Unit) {
	at := g.m.provOf[u.Place]
	into := g.m.reach[u.Kind][u.Place]
	atSea := g.m.seas.Has(at)
	if atSea {
		g.convoys.leaveOut(at)
	}
	for v := range g.armies.All() {
		dests := g.goes[v].and(&into)
		if dests.Empty() && !into.Has(v) || v == at {
			continue
		}
		if atSea && g.m.coastal.Has(v) {
			via := g.convoys.reachWithout(v)
			via = via.union(&g.m.reach[Army][v])
			dests = dests.and(&via)
		}
		g.addSupport(u, &s.units[v], &into, &dests)
	}
	for v := range g.fleets.All() {
		dests := g.goes[v].and(&into)
		if dests.Empty() && !into.Has(v) || v == at {
			continue
		}
		g.addSupport(u, &s.units[v], &into, &dests)
	}
}

func (g *Generator) addSupport(u Unit, v *Unit, into, dests *ProvinceSet) {
	o := u.SupportHold(*v)
	if into.Has(g.m.provOf[v.Place]) {
		g.add(o)
	}
	for dest := range dests.All() {
		o.Dest = Place(dest)
		g.add(o)
		if v.Kind == Fleet && len(g.m.provinces[dest].coasts) > 0 {
			g.addCoastSupports(u, *v, dest)
		}
	}
}

// addCoastSupports lists the supports that name the coast which v moves to.
func (g *Generator) addCoastSupports(u, v Unit, dest Province) {
	for _, coast := range g.m.provinces[dest].coasts {
		if g.m.Adjacent(Fleet, v.Place, coast) {
			g.add(u.SupportMove(v, coast))
		}
	}
}

func (g *Generator) addConvoys(s *State, u Unit) {
	at := g.m.provOf[u.Place]
	for v := range g.armies.All() {
		for dest := range g.convoys.carries(at, v).All() {
			g.add(u.Convoy(s.units[v], Place(dest)))
		}
	}
}

func (g *Generator) addRetreats(s *State, o *Options) {
	for d := range s.Dislodged(o.Power) {
		g.begin(d.Unit)
		for dest := range s.RetreatPlaces(d) {
			g.add(d.Retreat(dest))
		}
		g.add(d.Disband())
		o.Count++
	}
}

func (g *Generator) addAdjustments(s *State, o *Options) {
	n := s.Adjustment(o.Power)
	switch {
	case n < 0:
		o.Count = -n
		for u := range s.Units(o.Power) {
			g.begin(u)
			g.add(u.Disband())
		}
	case n > 0:
		o.Count, o.MayWaive = n, true
		for home := range s.FreeHomes(o.Power) {
			g.addBuilds(o.Power, home)
		}
	}
}

func (g *Generator) addBuilds(p Power, home Province) {
	g.begin(Unit{Power: p, Place: Place(home)})
	for kind := Army; kind <= Fleet; kind++ {
		if g.m.stands(kind, Place(home)) {
			g.add(Unit{Kind: kind, Power: p, Place: Place(home)}.Build())
		}
	}
	for _, coast := range g.m.provinces[home].coasts {
		g.add(Unit{Kind: Fleet, Power: p, Place: coast}.Build())
	}
}
