package diplomacy

// chained reports whether the given fleets at sea join two coastal provinces.
func (m *Map) chained(from, to Province, fleets ProvinceSet) bool {
	ring := m.ports[from].and(&fleets)
	for !ring.Empty() {
		fleets = fleets.minus(&ring)
		if ring.meets(&m.ports[to]) {
			return true
		}
		var next ProvinceSet
		for at := range ring.All() {
			next = next.union(&m.seaNext[at])
		}
		ring = next.and(&fleets)
	}
	return false
}

// chainNeeds reports whether some chain of the given fleets joins two coastal provinces through one fleet and would
// break without any of its fleets: only the first touches from, only the last touches to, and no fleet touches
// another than its neighbours in the chain.
func (m *Map) chainNeeds(fleet, from, to Province, fleets ProvinceSet) bool {
	starts := m.ports[from].and(&fleets)
	for first := range starts.All() {
		if m.chainOn(first, fleet, to, fleets, m.ports[from]) {
			return true
		}
	}
	return false
}

// chainOn follows the chains that go on with the fleet at. The needed fleet is still to come, or is NoProvince once
// it has been passed; no later fleet may stand on barred.
func (m *Map) chainOn(at, needed, to Province, fleets, barred ProvinceSet) bool {
	if at == needed {
		needed = noProvince
	}
	if m.ports[to].Has(at) {
		return needed == noProvince
	}
	next := m.seaNext[at].and(&fleets)
	next = next.minus(&barred)
	if next.Empty() {
		return false
	}
	barred = barred.union(&m.seaNext[at])
	barred.Add(at)
	for n := range next.All() {
		if m.chainOn(n, needed, to, fleets, barred) {
			return true
		}
	}
	return false
}
