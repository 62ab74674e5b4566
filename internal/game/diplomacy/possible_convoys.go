package diplomacy

// convoyFinder knows which armies the fleets of a position could carry where, whoever owns them and whatever they are
// ordered to do.
type convoyFinder struct {
	m       *Map
	atSea   ProvinceSet // fleets that could convoy
	groups  []fleetGroup
	without []fleetGroup // groups if one fleet did something else
	carried []Province   // armies that a fleet touches
	carry   []ProvinceSet
	fleetNo [MaxProvinces]uint8
	armyNo  [MaxProvinces]uint8
}

// fleetGroup is a connected set of fleets at sea and the coast that it touches.
type fleetGroup struct{ seas, coast ProvinceSet }

func (c *convoyFinder) find(m *Map, armies, fleets *ProvinceSet) {
	c.m = m
	c.atSea = fleets.and(&m.seas)
	c.groups = c.split(c.groups[:0], c.atSea)
	c.trace(armies)
}

// split appends the connected groups of the given fleets.
func (c *convoyFinder) split(groups []fleetGroup, fleets ProvinceSet) []fleetGroup {
	for first := range fleets.All() {
		if !fleets.Has(first) {
			continue
		}
		var g fleetGroup
		var ring ProvinceSet
		ring.Add(first)
		for !ring.Empty() {
			g.seas = g.seas.union(&ring)
			fleets = fleets.minus(&ring)
			var next ProvinceSet
			for at := range ring.All() {
				next = next.union(&c.m.seaNext[at])
				g.coast = g.coast.union(&c.m.coast[at])
			}
			ring = next.and(&fleets)
		}
		groups = append(groups, g)
	}
	return groups
}

// reach is where an army in a coastal province could be carried.
func (c *convoyFinder) reach(port Province) ProvinceSet { return c.reachBy(c.groups, port) }

// leaveOut prepares reachWithout for one fleet.
func (c *convoyFinder) leaveOut(fleet Province) {
	rest := c.atSea
	rest.Remove(fleet)
	c.without = c.split(c.without[:0], rest)
}

// reachWithout is reach, had the fleet that was left out another task.
func (c *convoyFinder) reachWithout(port Province) ProvinceSet { return c.reachBy(c.without, port) }

func (c *convoyFinder) reachBy(groups []fleetGroup, port Province) ProvinceSet {
	var to ProvinceSet
	for i := range groups {
		if groups[i].seas.meets(&c.m.ports[port]) {
			to = to.union(&groups[i].coast)
		}
	}
	to.Remove(port)
	return to
}

// trace finds for every fleet and army the destinations of the chains that need the fleet: chains in which only the
// first fleet touches the army's province, only the last the destination, and no fleet touches another than its
// neighbours in the chain.
func (c *convoyFinder) trace(armies *ProvinceSet) {
	n := uint8(0)
	for at := range c.atSea.All() {
		c.fleetNo[at] = n
		n++
	}
	c.carried = c.carried[:0]
	for port := range armies.and(&c.m.coastal).All() {
		if c.m.ports[port].meets(&c.atSea) {
			c.armyNo[port] = uint8(len(c.carried))
			c.carried = append(c.carried, port)
		}
	}
	size := int(n) * len(c.carried)
	if cap(c.carry) < size {
		c.carry = make([]ProvinceSet, size)
	}
	c.carry = c.carry[:size]
	clear(c.carry)
	for _, port := range c.carried {
		starts := c.m.ports[port].and(&c.atSea)
		for first := range starts.All() {
			c.extend(port, first, c.m.ports[port], ProvinceSet{})
		}
	}
}

// extend follows every chain that goes on with the fleet at, and returns where they end. No later fleet may stand on
// barred, and no chain may end on a coast that it has passed.
func (c *convoyFinder) extend(port, at Province, barred, passed ProvinceSet) ProvinceSet {
	ends := c.m.coast[at].minus(&passed)
	ends.Remove(port)
	next := c.m.seaNext[at].and(&c.atSea)
	next = next.minus(&barred)
	if !next.Empty() {
		barred = barred.union(&c.m.seaNext[at])
		barred.Add(at)
		passed = passed.union(&c.m.coast[at])
		for n := range next.All() {
			more := c.extend(port, n, barred, passed)
			ends = ends.union(&more)
		}
	}
	carry := &c.carry[int(c.fleetNo[at])*len(c.carried)+int(c.armyNo[port])]
	*carry = carry.union(&ends)
	return ends
}

// carries is where the fleet at sea may be ordered to convoy the army in port.
func (c *convoyFinder) carries(fleet, port Province) ProvinceSet {
	i := int(c.armyNo[port])
	if i >= len(c.carried) || c.carried[i] != port {
		return ProvinceSet{}
	}
	return c.carry[int(c.fleetNo[fleet])*len(c.carried)+i]
}
