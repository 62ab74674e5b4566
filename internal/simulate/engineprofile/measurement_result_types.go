package engineprofile

import (
	"fmt"

	"github.com/millrace/millrace/internal/kit/stat"
)

// Measured is a setting and its rounds.
type Measured struct {
	Setting
	Rounds []Round
}

// Round is one measurement of a setting. Prompts never have quite the length that they should, so each round has its
// own.
type Round struct {
	Prompts     []int // tokens
	LessPrompts []int // of the requests with the shorter answers
	Sec         float64
}

// seconds is the median of the rounds.
func (m *Measured) seconds() float64 {
	all := make([]float64, len(m.Rounds))
	for i := range m.Rounds {
		all[i] = m.Rounds[i].Sec
	}
	return stat.Median(all)
}

// Measurements are everything that was found out about an engine.
type Measurements struct {
	Model, Adapter string
	Version        string
	Base           []Measured
	WithAdapter    []Measured
	RoundTrip      float64 // seconds of a call that asks for nothing: the least of some
	MaxSequences   int     // that the engine runs at once, if it was fewer than it was sent; 0: not known
	AdapterSlots   int     // 0: not known
	Rounds         int
	CachedShare    float64 // of the prompts' tokens, found in the prefix cache in spite of all
}

// enough reports what is missing to fit a cost.
func (m *Measurements) enough() error {
	prefills, decodes := 0, 0
	for i := range m.Base {
		if m.Base[i].seconds() <= 0 {
			return fmt.Errorf("%s: %d more output tokens took no time: the engine is not measured, but something before it",
				m.Base[i].describe(), m.Base[i].Output-m.Base[i].Less)
		}
		if m.Base[i].Less == 0 {
			prefills++
		} else {
			decodes++
		}
	}
	if prefills < 3 || decodes < 3 {
		return fmt.Errorf("%d prefills and %d batches were measured; want 3 of each at least", prefills, decodes)
	}
	return nil
}
