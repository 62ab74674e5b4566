package diplomacy

import (
	"errors"
	"fmt"
)

// ErrNotOrder is returned for a text that is not an order, whatever the position. Orders that are well formed but
// against the rules are answered with a Fault.
var ErrNotOrder = errors.New("not an order")

func notOrder(text, format string, args ...any) error {
	const longest = 80
	if len(text) > longest {
		text = text[:longest] + "..."
	}
	return fmt.Errorf("%w: %q: %s", ErrNotOrder, text, fmt.Sprintf(format, args...))
}

// maxOrderText bounds the text of one order.
const maxOrderText = 400

// ParseOrder reads an order of any phase in the notation of the python package or a common variant of it: any case,
// "A PAR-BUR", "A PAR M BUR", "Army Paris to Burgundy", "F STP(NC)", "build A PAR". It checks words and places, not
// the rules, and leaves open what only a position can tell (a missing unit letter, a coast); State.ParseOrder does
// both.
func ParseOrder(m *Map, text string) (Order, error) {
	if len(text) > maxOrderText {
		return Order{}, notOrder(text, "longer than %d bytes", maxOrderText)
	}
	tokens, err := m.lex(text)
	if err != nil {
		return Order{}, err
	}
	p := parser{text: text, tokens: tokens}
	o, err := p.order()
	if err != nil {
		return Order{}, err
	}
	if len(p.tokens) > 0 {
		return Order{}, notOrder(text, "%q after the order", p.tokens[0].text)
	}
	return o, nil
}

// ParseOrder reads an order that power p gives in this position, fills in what the position makes plain (a missing
// unit letter, the only possible coast, VIA), and answers what the rules forbid with the reason: a wrapped Fault beside
// the order, which Process would count as Void.
func (s *State) ParseOrder(p Power, text string) (Order, error) {
	o, err := ParseOrder(s.m, text)
	if err != nil {
		return Order{}, err
	}
	o = s.complete(o)
	if f := s.fault(p, o); f != 0 {
		return o, fmt.Errorf("%s: %w", s.m.OrderString(o), f)
	}
	return o, nil
}

// parser reads the tokens of one order from the front.
type parser struct {
	text   string
	tokens []token
}

func (p *parser) peek() wordKind {
	if len(p.tokens) == 0 {
		return wordNone
	}
	return p.tokens[0].kind
}

// accept takes the next token if it is of a kind.
func (p *parser) accept(k wordKind) bool {
	if p.peek() != k {
		return false
	}
	p.tokens = p.tokens[1:]
	return true
}

func (p *parser) order() (Order, error) {
	if p.accept(wordWaive) {
		return WaiveOrder(), nil
	}
	if verb := p.peek(); verb == wordBuild || verb == wordDisband {
		return p.verbFirst(verb)
	}
	u, err := p.unit()
	if err != nil {
		return Order{}, err
	}
	switch {
	case p.accept(wordHold):
		return u.Hold(), nil
	case p.accept(wordTo):
		p.accept(wordTo) // "moves to"
		return p.move(u)
	case p.accept(wordSupport):
		return p.second(u, Support)
	case p.accept(wordConvoy):
		return p.second(u, Convoy)
	case p.accept(wordRetreat):
		p.accept(wordTo)
		dest, err := p.place()
		return u.Retreat(dest), err
	case p.accept(wordDisband):
		return u.Disband(), nil
	case p.accept(wordBuild):
		return u.Build(), p.buildable(u)
	case len(p.tokens) == 0:
		return Order{}, notOrder(p.text, "it does not say what to do")
	}
	return Order{}, notOrder(p.text, "%q instead of what to do", p.tokens[0].text)
}

// verbFirst reads "BUILD A PAR", "REMOVE A PAR", "BUILD WAIVE".
func (p *parser) verbFirst(verb wordKind) (Order, error) {
	p.accept(verb)
	if verb == wordBuild && p.accept(wordWaive) {
		return WaiveOrder(), nil
	}
	u, err := p.unit()
	if err != nil {
		return Order{}, err
	}
	if verb == wordBuild {
		return u.Build(), p.buildable(u)
	}
	return u.Disband(), nil
}

func (p *parser) buildable(u Unit) error {
	if u.Kind == 0 {
		return notOrder(p.text, "it does not say whether to build an army or a fleet")
	}
	return nil
}

// unit reads "A PAR", or "PAR" with the kind left open.
func (p *parser) unit() (Unit, error) {
	u := Unit{Power: NoPower}
	switch {
	case p.accept(wordArmy):
		u.Kind = Army
	case p.accept(wordFleet):
		u.Kind = Fleet
	}
	var err error
	u.Place, err = p.place()
	return u, err
}

func (p *parser) place() (Place, error) {
	if len(p.tokens) == 0 {
		return NoPlace, notOrder(p.text, "it ends where a place is wanted")
	}
	t := p.tokens[0]
	if t.kind != wordPlace {
		return NoPlace, notOrder(p.text, "%q where a place is wanted", t.text)
	}
	p.tokens = p.tokens[1:]
	return t.place, nil
}

// move reads a destination; one by one if the way of a convoy is spelt out.
func (p *parser) move(u Unit) (Order, error) {
	dest, err := p.place()
	if err != nil {
		return Order{}, err
	}
	o := u.Move(dest)
	for p.accept(wordTo) {
		if o.Dest, err = p.place(); err != nil {
			return Order{}, err
		}
		o.Via = true
	}
	o.Via = p.via() || o.Via
	return o, nil
}

// via reads VIA, VIA CONVOY, VIA NTH: which fleets carry an army is not its choice.
func (p *parser) via() bool {
	if !p.accept(wordVia) {
		return false
	}
	p.accept(wordConvoy)
	for p.accept(wordPlace) {
		p.accept(wordTo)
	}
	return true
}

// second reads what a unit supports or convoys.
func (p *parser) second(u Unit, verb Verb) (Order, error) {
	v, err := p.unit()
	if err != nil {
		return Order{}, err
	}
	o := u.order(verb)
	o.AuxKind, o.Aux = v.Kind, v.Place
	switch {
	case p.accept(wordTo):
		p.accept(wordTo)
		moved, err := p.move(v)
		o.Dest = moved.Dest
		return o, err
	case verb == Convoy:
		return Order{}, notOrder(p.text, "it does not say where to")
	}
	p.accept(wordHold)
	return o, nil
}
