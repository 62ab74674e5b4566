package diplomacyview

import (
	"fmt"

	"github.com/millrace/millrace/internal/game/diplomacy"
)

const (
	unitRadius = 14.0
	bend       = 0.09 // how far a move's arrow bends aside, so that two opposite ones do not cover each other
)

// marks draws orders, units and names, in the order in which they may cover each other.
func (d *drawing) marks() {
	for power, list := range d.phase.orders {
		for _, o := range list {
			d.aid(power, o)
		}
	}
	for power, list := range d.phase.orders {
		for _, o := range list {
			d.journey(power, o)
		}
	}
	for _, area := range d.atlas.Areas {
		d.name(area.Name)
	}
	for u := range d.phase.state.AllUnits() {
		d.unit(u, d.anchor(u.Place))
	}
	for p := range d.m.Powers() {
		for u := range d.phase.state.Dislodged(diplomacy.Power(p)) {
			at := d.shifted(u.Place)
			d.put(`<circle class="ring" cx="%.1f" cy="%.1f" r="%.1f"/>`, at.x, at.y, unitRadius+2)
			d.unit(u.Unit, at)
		}
	}
	for power, list := range d.phase.orders {
		for _, o := range list {
			d.fate(power, o)
		}
	}
}

func (d *drawing) anchor(p diplomacy.Place) point { return d.atlas.Places[d.m.PlaceName(p)].At }

// shifted is where a dislodged unit stands, beside the one that drove it out.
func (d *drawing) shifted(p diplomacy.Place) point { return d.atlas.Places[d.m.PlaceName(p)].Beside }

// name writes a province's short name below where a unit would stand, with a mark if it has a centre.
func (d *drawing) name(name string) {
	place, ok := d.m.PlaceByName(name)
	if !ok {
		return
	}
	province := diplomacy.Province(place)
	at := d.atlas.nameAt(name, d.ringed(province))
	class := "name"
	if d.m.Terrain(province) == diplomacy.Sea {
		class = "name sea-name"
	}
	if d.m.IsCenter(province) {
		at.x += 5
		fill := "nobody"
		if owner := d.phase.state.Owner(province); owner != diplomacy.NoPower {
			fill = fmt.Sprintf("f%d", int(owner)%7)
		}
		d.put(`<circle class="centre %s" cx="%.1f" cy="%.1f" r="4"/>`, fill, at.x-18, at.y-4)
	}
	d.put(`<text class="%s" x="%.1f" y="%.1f">%s</text>`, class, at.x, at.y, name)
}

// ringed reports whether the unit in a province has a ring around it, which its name must leave room for.
func (d *drawing) ringed(at diplomacy.Province) bool {
	o, ok := d.phase.orderOf(at)
	return ok && (o.order.Verb == diplomacy.Build || o.has("dislodged") &&
		d.phase.state.Phase().Type == diplomacy.Movement)
}

// unit draws an army as a disc and a fleet as a hull.
func (d *drawing) unit(u diplomacy.Unit, at point) {
	if u.Kind == diplomacy.Army {
		d.put(`<circle class="unit f%d" cx="%.1f" cy="%.1f" r="12.5"/>`, int(u.Power)%7, at.x, at.y)
	} else {
		d.put(`<path class="unit f%d" d="M%.1f %.1fh34l-7 19h-20z"/>`, int(u.Power)%7, at.x-17, at.y-9.5)
	}
	d.put(`<text class="letter" x="%.1f" y="%.1f">%s</text>`, at.x, at.y+4.8, u.Kind)
}

// journey draws moves and retreats.
func (d *drawing) journey(power int, o order) {
	from, class := point{}, "move"
	switch o.order.Verb {
	case diplomacy.Move:
		from = d.anchor(o.order.Place)
	case diplomacy.Retreat:
		from, class = d.shifted(o.order.Place), "flee"
	default:
		return
	}
	w := bow(from, d.anchor(o.order.Dest))
	if o.order.Via {
		class, w = "carry", d.passage(o.order)
	}
	if d.stopped(o) {
		class += " failed"
	}
	d.put(`<path class="halo" stroke-width="6" d="%s"/>`, w.path())
	d.put(`<path class="order %s s%d" d="%s"/>`, class, power%7, w.path())
	d.head(power, w)
	if d.stopped(o) {
		d.cross(w.at(0.82), 6)
	}
}

func (d *drawing) stopped(o order) bool {
	return o.has("bounce") || o.has("no convoy") || o.has("disrupted")
}

// head draws the point of an arrow.
func (d *drawing) head(power int, w way) {
	tip, angle := w.end()
	d.put(`<path class="tip f%d" transform="translate(%.1f %.1f) rotate(%.1f)" d="M5 0L-8 -6.5L-8 6.5z"/>`, power%7,
		tip.x, tip.y, angle)
}

// aid draws a support or a convoy: a line from who helps to what is helped.
func (d *drawing) aid(power int, o order) {
	class := map[diplomacy.Verb]string{diplomacy.Support: "aid", diplomacy.Convoy: "carry"}[o.order.Verb]
	if class == "" {
		return
	}
	helper, helped := d.anchor(o.order.Place), d.anchor(o.order.Aux)
	end := toward(helped, helper, unitRadius+3)
	if o.order.Dest != diplomacy.NoPlace {
		w := d.helpedWay(o.order)
		if o.order.Verb == diplomacy.Convoy && w.touches(helper) {
			return // the army's arrow leads through the fleet
		}
		end = w.at(0.62)
	}
	start := toward(helper, end, unitRadius-2)
	start, end = aside(start, end, 4)
	if o.failed() {
		class += " failed"
	}
	d.put(`<path class="halo" stroke-width="5" d="M%.1f %.1fL%.1f %.1f"/>`, start.x, start.y, end.x, end.y)
	d.put(`<path class="order %s s%d" d="M%.1f %.1fL%.1f %.1f"/>`, class, power%7, start.x, start.y, end.x, end.y)
	d.put(`<circle class="f%d" cx="%.1f" cy="%.1f" r="4.2"/>`, power%7, end.x, end.y)
	if o.failed() && !o.has("dislodged") || o.has("cut") {
		d.cross(point{(start.x + end.x) / 2, (start.y + end.y) / 2}, 5)
	}
}

// aside moves a line a little to its right, so that two units that help each other show two lines.
func aside(from, to point, by float64) (point, point) {
	off := toward(point{}, point{from.y - to.y, to.x - from.x}, by)
	return point{from.x + off.x, from.y + off.y}, point{to.x + off.x, to.y + off.y}
}

// fate marks units that leave the board, come onto it, or are driven out.
func (d *drawing) fate(power int, o order) {
	if o.order.Verb == 0 || o.order.Verb == diplomacy.Waive {
		return
	}
	at := d.anchor(o.order.Place)
	if d.phase.state.Phase().Type == diplomacy.Retreats {
		at = d.shifted(o.order.Place)
	}
	switch {
	case o.order.Verb == diplomacy.Build:
		d.unit(diplomacy.Unit{Kind: o.order.Kind, Power: diplomacy.Power(power)}, at)
		d.put(`<circle class="ring new" cx="%.1f" cy="%.1f" r="%.1f"/>`, at.x, at.y, unitRadius+5)
	case o.order.Verb == diplomacy.Disband || o.has("disband"):
		d.cross(at, 13)
	case o.has("dislodged"):
		d.put(`<circle class="ring" cx="%.1f" cy="%.1f" r="%.1f"/>`, at.x, at.y, unitRadius+5)
	}
}

func (d *drawing) cross(at point, r float64) {
	d.put(`<path class="cross" d="M%.1f %.1fl%.1f %.1fm0 %.1fl%.1f %.1f"/>`, at.x-r, at.y-r, 2*r, 2*r, -2*r, -2*r, 2*r)
}
