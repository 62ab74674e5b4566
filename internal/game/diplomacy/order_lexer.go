package diplomacy

import "strings"

// wordKind is what a word of an order means.
type wordKind uint8

const (
	wordNone wordKind = iota
	wordPlace
	wordCoast
	wordArmy
	wordFleet
	wordHold
	wordTo
	wordSupport
	wordConvoy
	wordVia
	wordRetreat
	wordDisband
	wordBuild
	wordWaive
)

// words are the words of the notation and of its common variants, except the names of places.
var words = map[string]wordKind{
	"A": wordArmy, "ARMY": wordArmy,
	"F": wordFleet, "FLEET": wordFleet,
	"H": wordHold, "HOLD": wordHold, "HOLDS": wordHold, "STAND": wordHold, "STANDS": wordHold,
	"-": wordTo, "M": wordTo, "MOVE": wordTo, "MOVES": wordTo, "TO": wordTo, "ATTACK": wordTo, "ATTACKS": wordTo,
	"S": wordSupport, "SUPPORT": wordSupport, "SUPPORTS": wordSupport,
	"C": wordConvoy, "CONVOY": wordConvoy, "CONVOYS": wordConvoy,
	"VIA": wordVia, "BY": wordVia,
	"R": wordRetreat, "RETREAT": wordRetreat, "RETREATS": wordRetreat,
	"D": wordDisband, "DISBAND": wordDisband, "DISBANDS": wordDisband, "REMOVE": wordDisband, "REMOVES": wordDisband,
	"B": wordBuild, "BUILD": wordBuild, "BUILDS": wordBuild,
	"WAIVE": wordWaive, "WAIVES": wordWaive,
	"NC": wordCoast, "SC": wordCoast, "EC": wordCoast, "WC": wordCoast,
	"NORTH COAST": wordCoast, "SOUTH COAST": wordCoast, "EAST COAST": wordCoast, "WEST COAST": wordCoast,
}

// A token is one word of an order, or several that name a place.
type token struct {
	kind  wordKind
	place Place
	text  string
}

// lex splits an order into tokens. Names are matched as long as possible: "NORTH SEA" before "NORTH".
func (m *Map) lex(text string) ([]token, error) {
	raw := splitWords(text)
	var tokens []token
	for len(raw) > 0 {
		t, used := m.nextToken(raw)
		if used == 0 {
			return nil, notOrder(text, "%q %s", raw[0], m.unknown(raw[0]))
		}
		raw = raw[used:]
		if t.kind == wordCoast {
			if err := m.attachCoast(tokens, t); err != "" {
				return nil, notOrder(text, "%s", err)
			}
			// "STP - NC": the sign belonged to the coast.
			if n := len(tokens); tokens[n-1].kind == wordTo {
				tokens = tokens[:n-1]
			}
			continue
		}
		tokens = append(tokens, t)
	}
	return tokens, nil
}

// unknown says what is wrong with a word that no token begins with.
func (m *Map) unknown(word string) string {
	if m.impass[word] {
		return "cannot be entered"
	}
	return "is neither a place nor a word of an order"
}

// attachCoast turns the place before a coast into that coast.
func (m *Map) attachCoast(tokens []token, coast token) string {
	n := len(tokens) - 1
	if n > 0 && tokens[n].kind == wordTo && tokens[n].text == "-" {
		n--
	}
	if n < 0 || tokens[n].kind != wordPlace {
		return "a coast without a province"
	}
	t := &tokens[n]
	name := m.PlaceName(t.place) + "/" + coast.text
	place, ok := m.PlaceByName(name)
	if !ok {
		return "there is no " + name
	}
	t.place = place
	return ""
}

// maxNameWords is how many words the name of a place may have.
const maxNameWords = 6

// nextToken reads the longest token at the front of raw and says how many words it took; none if it is unknown.
func (m *Map) nextToken(raw []string) (token, int) {
	for n := min(len(raw), maxNameWords); n > 0; n-- {
		key, ok := joinWords(raw[:n])
		if !ok {
			continue
		}
		if p, known := m.lexicon[key]; known {
			return token{kind: wordPlace, place: p, text: key}, n
		}
		if kind := words[key]; kind != wordNone {
			if kind == wordCoast && n > 1 {
				key = key[:1] + "C"
			}
			return token{kind: kind, text: key}, n
		}
		if p, known := m.byPrefix(key); known {
			return token{kind: wordPlace, place: p, text: key}, n
		}
	}
	return token{}, 0
}

// minPrefix is how many letters of a name are enough, if no other name begins like it.
const minPrefix = 4

// byPrefix finds the only province whose full name begins with key.
func (m *Map) byPrefix(key string) (Place, bool) {
	if len(key) < minPrefix {
		return NoPlace, false
	}
	found := NoPlace
	for i := range m.provinces {
		if strings.HasPrefix(m.provinces[i].key, key) {
			if found != NoPlace {
				return NoPlace, false
			}
			found = Place(i)
		}
	}
	return found, found != NoPlace
}

// joinWords makes one key of several words. A dash inside a name does not count; at an end it is no part of a name.
func joinWords(raw []string) (string, bool) {
	if len(raw) == 1 {
		return raw[0], true
	}
	if raw[0] == "-" || raw[len(raw)-1] == "-" {
		return "", false
	}
	var b strings.Builder
	for _, w := range raw {
		if w == "-" {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(w)
	}
	return b.String(), true
}

// splitWords cuts a text into upper-case words of letters and digits, and dashes. Other signs only separate.
func splitWords(text string) []string {
	var raw []string
	begin := -1
	upper := strings.ToUpper(text)
	for i, r := range upper + " " {
		if r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r >= 0x80 && !isDash(r) {
			if begin < 0 {
				begin = i
			}
			continue
		}
		if begin >= 0 {
			raw = append(raw, upper[begin:i])
			begin = -1
		}
		if isDash(r) {
			raw = append(raw, "-")
		}
	}
	return raw
}

func isDash(r rune) bool { return r == '-' || r == '–' || r == '—' || r == '→' }

// lexKey is the form in which a name is looked up.
func lexKey(name string) string {
	raw := splitWords(name)
	if len(raw) == 0 {
		return ""
	}
	key, _ := joinWords(raw)
	return key
}
