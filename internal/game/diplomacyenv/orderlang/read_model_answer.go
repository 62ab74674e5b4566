package orderlang

import (
	"errors"
	"strings"

	"github.com/millrace/millrace/internal/game/diplomacy"
)

// Verdict says how much of what was asked an answer gives.
type Verdict uint8

// The verdicts.
const (
	Empty   Verdict = iota // no order at all, not even a bad one
	Invalid                // lines, but no legal order among them
	Partial                // a legal order, but also a bad line or an order missing
	Full                   // a legal order for everything asked, and nothing else
)

// A Reading is what was understood of an answer.
type Reading struct {
	// Orders are the legal ones, at most one per site and no more than were asked. What is missing is left to the
	// rules: units hold, dislodged ones disband, removals are chosen by civil disorder, builds are waived.
	Orders  []diplomacy.Order
	Verdict Verdict
	Illegal int // lines that are no legal order, order a site again, or are too many
	Missing int // orders that were asked and not given
	Reasons []error
}

var (
	errTooMany = errors.New("more orders than were asked")
	errTwice   = errors.New("a second order to the same place")
)

// maxReasons bounds what a babbling answer can make us keep.
const maxReasons = 8

// Read understands the answer of the power that o belongs to, leniently: the notation's variants count, blank lines do
// not, and of two orders to one site the first stands.
func Read(s *diplomacy.State, o diplomacy.Options, answer string) Reading {
	var r Reading
	var given diplomacy.ProvinceSet
	for line := range strings.Lines(answer) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		order, err := s.ParseOrder(o.Power, line)
		if err == nil {
			err = r.admit(s.Map(), o, order, &given)
		}
		if err != nil {
			r.Illegal++
			if len(r.Reasons) < maxReasons {
				r.Reasons = append(r.Reasons, err)
			}
		}
	}
	r.Missing = o.Count - len(r.Orders)
	r.Verdict = r.verdict()
	return r
}

func (r *Reading) admit(m *diplomacy.Map, o diplomacy.Options, order diplomacy.Order,
	given *diplomacy.ProvinceSet) error {
	if len(r.Orders) == o.Count {
		return errTooMany
	}
	if order.Verb != diplomacy.Waive {
		at := m.Province(order.Place)
		if given.Has(at) {
			return errTwice
		}
		given.Add(at)
	}
	r.Orders = append(r.Orders, order)
	return nil
}

func (r *Reading) verdict() Verdict {
	switch {
	case len(r.Orders) == 0 && r.Illegal == 0:
		return Empty
	case len(r.Orders) == 0:
		return Invalid
	case r.Illegal > 0 || r.Missing > 0:
		return Partial
	}
	return Full
}
