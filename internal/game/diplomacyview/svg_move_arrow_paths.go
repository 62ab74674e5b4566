package diplomacyview

import (
	"fmt"
	"math"
	"slices"

	"github.com/millrace/millrace/internal/game/diplomacy"
)

// way is how a move is drawn: a bow from one unit to the rim of the other, or, by convoy, straight from fleet to fleet.
type way struct {
	points []point
	bowed  bool // three points: the ends, and what bends the line
}

// bow goes a little to the right, so that two opposite moves do not cover each other.
func bow(from, to point) way {
	mid := point{(from.x + to.x) / 2, (from.y + to.y) / 2}
	side := point{mid.x - (to.y-from.y)*bend, mid.y + (to.x-from.x)*bend}
	return way{[]point{toward(from, side, unitRadius), side, toward(to, side, unitRadius+4)}, true}
}

// passage leads through the fleets that are ordered to carry the move, or in a bow where they make no chain.
func (d *drawing) passage(o diplomacy.Order) way {
	fleets := d.chain(o)
	if len(fleets) == 0 {
		return bow(d.anchor(o.Place), d.anchor(o.Dest))
	}
	points := []point{d.anchor(o.Place)}
	for _, sea := range fleets {
		points = append(points, d.anchor(diplomacy.Place(sea)))
	}
	to, last := d.anchor(o.Dest), len(points)-1
	points = append(points, toward(to, points[last], unitRadius+4))
	points[0] = toward(points[0], points[1], unitRadius)
	return way{points: points}
}

// chain is a shortest chain of seas from a convoyed army to its destination, of those whose fleets are ordered to carry
// it.
func (d *drawing) chain(o diplomacy.Order) []diplomacy.Province {
	to := d.m.Province(o.Dest)
	var open diplomacy.ProvinceSet
	for _, list := range d.phase.orders {
		for _, c := range list {
			if c.order.Verb == diplomacy.Convoy && c.order.Aux == o.Place && d.m.Province(c.order.Dest) == to {
				open.Add(d.m.Province(c.order.Place))
			}
		}
	}
	from := map[diplomacy.Province]diplomacy.Province{}
	start := d.m.Province(o.Place)
	for queue := []diplomacy.Province{start}; len(queue) > 0; queue = queue[1:] {
		for sea := range open.All() {
			reach := d.m.Reach(diplomacy.Fleet, diplomacy.Place(sea))
			if _, seen := from[sea]; seen || !reach.Has(queue[0]) {
				continue
			}
			from[sea] = queue[0]
			if reach.Has(to) {
				return traced(from, start, sea)
			}
			queue = append(queue, sea)
		}
	}
	return nil
}

func traced(from map[diplomacy.Province]diplomacy.Province, start, at diplomacy.Province) []diplomacy.Province {
	var seas []diplomacy.Province
	for ; at != start; at = from[at] {
		seas = append(seas, at)
	}
	slices.Reverse(seas)
	return seas
}

// helpedWay is the way of the move that a support or convoy is for, as it is drawn if the move is ordered, so that the
// line meets its arrow.
func (d *drawing) helpedWay(o diplomacy.Order) way {
	own, ok := d.phase.orderOf(d.m.Province(o.Aux))
	if !ok || own.order.Verb != diplomacy.Move || d.m.Province(own.order.Dest) != d.m.Province(o.Dest) {
		return bow(d.anchor(o.Aux), d.anchor(o.Dest))
	}
	if own.order.Via {
		return d.passage(own.order)
	}
	return bow(d.anchor(o.Aux), d.anchor(own.order.Dest))
}

func (w way) touches(p point) bool { return !w.bowed && slices.Contains(w.points, p) }

// at is the point a share t along the bow, or along the last leg.
func (w way) at(t float64) point {
	n := len(w.points)
	a, b, u := w.points[n-2], w.points[n-1], 1-t
	if !w.bowed {
		return point{u*a.x + t*b.x, u*a.y + t*b.y}
	}
	from := w.points[0]
	return point{u*u*from.x + 2*u*t*a.x + t*t*b.x, u*u*from.y + 2*u*t*a.y + t*t*b.y}
}

// end is where the arrow's head goes, and its direction in degrees.
func (w way) end() (point, float64) {
	n := len(w.points)
	a, b := w.points[n-2], w.points[n-1]
	return b, math.Atan2(b.y-a.y, b.x-a.x) * 180 / math.Pi
}

func (w way) path() string {
	if w.bowed {
		return fmt.Sprintf("M%.1f %.1fQ%.1f %.1f %.1f %.1f", w.points[0].x, w.points[0].y, w.points[1].x, w.points[1].y,
			w.points[2].x, w.points[2].y)
	}
	b := fmt.Appendf(nil, "M%.1f %.1f", w.points[0].x, w.points[0].y)
	for _, p := range w.points[1:] {
		b = fmt.Appendf(b, "L%.1f %.1f", p.x, p.y)
	}
	return string(b)
}
