package bot

import (
	"math/rand/v2"

	"github.com/millrace/millrace/internal/game/diplomacy"
)

// plan is the movement of one power while it is made: what each unit does, and who goes where.
type plan struct {
	m      *diplomacy.Map
	v      *values
	rng    *rand.Rand
	sites  []diplomacy.Site
	orders []diplomacy.Order // by site; the zero order: not yet given
	busy   []bool            // by site: being decided, further up the stack
	siteAt [diplomacy.MaxProvinces]int
	mover  [diplomacy.MaxProvinces]int // site that moves into a province, or none
}

const none = -1

func (p *plan) movement(s *diplomacy.State, o diplomacy.Options, v *values, rng *rand.Rand) []diplomacy.Order {
	p.m, p.v, p.rng, p.sites = s.Map(), v, rng, o.Sites
	p.orders, p.busy = make([]diplomacy.Order, len(o.Sites)), make([]bool, len(o.Sites))
	for at := range p.siteAt {
		p.siteAt[at], p.mover[at] = none, none
	}
	for i := range o.Sites {
		p.siteAt[p.m.Province(o.Sites[i].Unit.Place)] = i
	}
	for _, i := range rng.Perm(len(o.Sites)) {
		p.decide(i)
	}
	return p.orders
}

// decide gives site i its order. Where it wants to go there may be an own unit that has none yet: that one is
// decided first.
func (p *plan) decide(i int) {
	if p.busy[i] || p.orders[i].Verb != 0 {
		return
	}
	p.busy[i] = true
	defer func() { p.busy[i] = false }()
	unit := p.sites[i].Unit
	options := []choice{{p.v.at(unit.Kind, unit.Place), unit.Place}}
	for _, dest := range p.m.Neighbors(unit.Kind, unit.Place) {
		options = append(options, choice{p.v.at(unit.Kind, dest), dest})
	}
	for len(options) > 0 {
		dest := draw(options, p.rng).place
		if order, ok := p.attempt(i, dest); ok {
			p.orders[i] = order
			if order.Verb == diplomacy.Move {
				p.mover[p.m.Province(dest)] = i
			}
			return
		}
		options = without(options, dest)
	}
	p.orders[i] = unit.Hold()
}

// attempt is what site i does if dest is where it wants to be; false if it should want something else.
func (p *plan) attempt(i int, dest diplomacy.Place) (diplomacy.Order, bool) {
	unit, at := p.sites[i].Unit, p.m.Province(dest)
	if dest == unit.Place {
		return unit.Hold(), true
	}
	if j := p.siteAt[at]; j != none {
		p.decide(j)
		switch {
		case p.orders[j].Verb == 0: // it waits for us in turn
			return diplomacy.Order{}, false
		case p.orders[j].Verb != diplomacy.Move:
			return unit.SupportHold(p.sites[j].Unit), p.v.competition[at] > 1
		}
	}
	if j := p.mover[at]; j != none {
		return unit.SupportMove(p.sites[j].Unit, p.orders[j].Dest), p.v.competition[at] > 0
	}
	return unit.Move(dest), true
}

func without(options []choice, dest diplomacy.Place) []choice {
	kept := options[:0]
	for _, o := range options {
		if o.place != dest {
			kept = append(kept, o)
		}
	}
	return kept
}
