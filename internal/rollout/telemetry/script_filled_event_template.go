package telemetry

import (
	"bytes"
	"fmt"
	"strconv"
)

// Holes makes events of which a part is known only to the script that writes them in Redis, such as how many groups
// were ready at the moment. The values that it answers stand for what is not known; Encode makes a template in which
// the script's fill puts what is. So the body's type stays the one definition of its fields.
//
// A Holes serves one event, and the zero value is ready for use.
type Holes struct{ holes []hole }

type hole struct{ name, text string }

// firstHole is a number that no event has. All of them have as many digits, and a float64 holds them exactly.
const firstHole = -9_007_199_254_000_000

// Int is a number that the script knows.
func (h *Holes) Int(name string) int64 {
	n := int64(firstHole - len(h.holes))
	h.holes = append(h.holes, hole{name, strconv.FormatInt(n, 10)})
	return n
}

// Float is a number that the script knows, with a fraction.
func (h *Holes) Float(name string) float64 { return float64(h.Int(name)) }

// Text is a word that the script knows. It is put in as it is: letters, digits and what JSON does not escape.
func (h *Holes) Text(name string) string {
	text := "(hole " + strconv.Itoa(len(h.holes)) + ")"
	h.holes = append(h.holes, hole{name, text})
	return text
}

// Encode is Encode with the holes marked: each is its name between the characters 1 and 2, which JSON has nowhere.
func (h *Holes) Encode(e Event) ([]byte, error) {
	b, err := Encode(e)
	if err != nil {
		return nil, err
	}
	for _, hole := range h.holes {
		if !bytes.Contains(b, []byte(hole.text)) {
			return nil, fmt.Errorf("encode %s: nothing of it is %s", e.Kind(), hole.name)
		}
		b = bytes.ReplaceAll(b, []byte(hole.text), []byte("\x01"+hole.name+"\x02"))
	}
	return b, nil
}
