package diplomacyview

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/game/diplomacy"
)

//go:embed standard.layout
var standardLayout string

// sheet is the size of the drawing that layouts use.
var sheet = polygon{{0, 0}, {1200, 0}, {1200, 1000}, {0, 1000}}

type polygon []point

// MarshalJSON writes what UnmarshalJSON reads.
func (p point) MarshalJSON() ([]byte, error) { return json.Marshal([]float64{p.x, p.y}) }

// The drawing is what its layout says: -update makes it anew.
func TestStandardDrawingIsOfItsLayout(t *testing.T) {
	t.Parallel()
	made, _ := drawLayout(t)
	text, err := json.MarshalIndent(made, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, '\n')
	if *update {
		if err := os.WriteFile("standard.json", text, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(text) != string(standardDrawing) {
		t.Error("standard.json is not what standard.layout says: go test -update ./internal/game/diplomacyview")
	}
}

// layout is a board while its drawing is made.
type layout struct {
	*atlas
	names   []string    // of the areas
	cells   [][]polygon // of their sites
	borders []border
}

// border is a line between two areas.
type border struct {
	from, to point
	between  [2]string
}

// drawLayout lays the standard board out.
func drawLayout(t *testing.T) (*atlas, []border) {
	t.Helper()
	m := diplomacy.Standard()
	l, err := readLayout(standardLayout)
	if err != nil {
		t.Fatal(err)
	}
	for p := range m.PlaceCount() {
		if name := m.PlaceName(diplomacy.Place(p)); l.Places[name].At == (point{}) {
			t.Fatalf("%s has no place on the sheet", name)
		}
	}
	l.findRoom(m)
	for i, name := range l.names {
		l.Areas = append(l.Areas, area{name, outline(l.cells[i])})
	}
	l.Borders = map[string]string{}
	for _, b := range l.borders {
		l.Borders[b.kind(m)] += fmt.Sprintf("M%.1f %.1fL%.1f %.1f", b.from.x, b.from.y, b.to.x, b.to.y)
	}
	return l.atlas, l.borders
}

// kind is the class of a border.
func (b border) kind(m *diplomacy.Map) string {
	seas := 0
	for _, name := range b.between {
		if at, ok := m.PlaceByName(name); ok && m.Terrain(diplomacy.Province(at)) == diplomacy.Sea {
			seas++
		}
	}
	return []string{"border", "coast", "border wet"}[seas]
}

// outline is cells as one path.
func outline(cells []polygon) string {
	var b []byte
	for _, cell := range cells {
		for k, p := range cell {
			letter := byte('L')
			if k == 0 {
				letter = 'M'
			}
			b = fmt.Appendf(append(b, letter), "%.1f %.1f", p.x, p.y)
		}
		b = append(b, 'Z')
	}
	return string(b)
}

type site struct {
	point
	area int
}

func readLayout(text string) (*layout, error) {
	l := &layout{atlas: &atlas{Places: map[string]spot{}}}
	var sites []site
	for lines, n := bufio.NewScanner(strings.NewReader(text)), 1; lines.Scan(); n++ {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || fields[0] == "#" {
			continue
		}
		name, above := strings.CutSuffix(fields[0], "^")
		for i, field := range fields[1:] {
			var p point
			if _, err := fmt.Sscanf(field, "%g,%g", &p.x, &p.y); err != nil {
				return nil, fmt.Errorf("layout line %d: %q: %w", n, field, err)
			}
			if i == 0 {
				l.Places[name] = spot{At: p, Above: above}
			}
			if !strings.Contains(name, "/") {
				sites = append(sites, site{p, len(l.names)})
			}
		}
		if !strings.Contains(name, "/") {
			l.names = append(l.names, name)
		}
	}
	l.cells = make([][]polygon, len(l.names))
	l.divide(sites)
	return l, nil
}

// divide gives every site its cell of the sheet: what is nearer to it than to any other.
func (l *layout) divide(sites []site) {
	for i, own := range sites {
		cell := slices.Clone(sheet)
		edges := make([]int, len(cell)) // which site is across each edge; -1 for the sheet's own
		for k := range edges {
			edges[k] = -1
		}
		for j, other := range sites {
			if j != i {
				cell, edges = clip(cell, edges, own.point, other.point, j)
			}
		}
		l.cells[own.area] = append(l.cells[own.area], cell)
		for k, across := range edges {
			if across > i && sites[across].area != own.area {
				l.borders = append(l.borders, border{
					cell[k], cell[(k+1)%len(cell)], [2]string{l.names[own.area], l.names[sites[across].area]},
				})
			}
		}
	}
}

// clip cuts off the part of cell that is nearer to other than to own. Edge k goes from corner k to the next.
func clip(cell polygon, edges []int, own, other point, id int) (polygon, []int) {
	// side is positive on the own side of the line halfway between the two.
	nx, ny := other.x-own.x, other.y-own.y
	mid := point{(own.x + other.x) / 2, (own.y + other.y) / 2}
	side := func(p point) float64 { return (mid.x-p.x)*nx + (mid.y-p.y)*ny }
	if !slices.ContainsFunc(cell, func(p point) bool { return side(p) < 0 }) {
		return cell, edges
	}
	var cut polygon
	var across []int
	for k, p := range cell {
		q := cell[(k+1)%len(cell)]
		sp, sq := side(p), side(q)
		if sp >= 0 {
			cut, across = append(cut, p), append(across, edges[k])
		}
		if (sp >= 0) == (sq >= 0) {
			continue
		}
		t := sp / (sp - sq)
		corner := point{p.x + t*(q.x-p.x), p.y + t*(q.y-p.y)}
		edge := edges[k]
		if sp >= 0 {
			edge = id // here the new edge begins
		}
		cut, across = append(cut, corner), append(across, edge)
	}
	return cut, across
}

const ringedOut = unitRadius + 4

// besides are where a second unit may stand next to the first, the usual one first.
var besides = []point{{28, -22}, {-28, -22}, {28, 22}, {-28, 22}, {35, 0}, {-35, 0}, {0, -35}, {0, 37}}

// findRoom places the second unit of every province where it covers neither names nor other units, or as little as
// can be.
func (a *atlas) findRoom(m *diplomacy.Map) {
	for p := range m.PlaceCount() {
		name := m.PlaceName(diplomacy.Place(p))
		s, best := a.Places[name], math.Inf(-1)
		for _, by := range besides {
			beside := point{s.At.x + by.x, s.At.y + by.y}
			if room := min(0, a.room(m, m.ProvinceID(m.Province(diplomacy.Place(p))), beside)); room > best {
				s.Beside, best = beside, room
			}
		}
		a.Places[name] = s
	}
}

// room is how far a ringed unit at a spot keeps from all names, the units of other provinces and the edge of the sheet;
// negative if it covers some.
func (a *atlas) room(m *diplomacy.Map, province string, spot point) float64 {
	room := min(spot.x, sheet[2].x-spot.x, spot.y, sheet[2].y-spot.y) - ringedOut
	for p := range m.PlaceCount() {
		place := diplomacy.Place(p)
		if int(p) < m.ProvinceCount() {
			foot := a.nameAt(m.PlaceName(place), false)
			room = min(room, fromBox(spot, foot.x-20, foot.x+20, foot.y-8, foot.y)-ringedOut)
		}
		if at := a.Places[m.PlaceName(place)].At; m.ProvinceID(m.Province(place)) != province {
			room = min(room, math.Hypot(at.x-spot.x, at.y-spot.y)-ringedOut-unitRadius)
		}
	}
	return room
}

// fromBox is the distance of p from a box.
func fromBox(p point, left, right, top, bottom float64) float64 {
	return math.Hypot(max(left-p.x, 0, p.x-right), max(top-p.y, 0, p.y-bottom))
}

// The drawing tells the truth: provinces that are next to each other on the board share a border that can be seen.
func TestNeighboursShareABorder(t *testing.T) {
	t.Parallel()
	m := diplomacy.Standard()
	_, borders := drawLayout(t)
	shared := map[[2]string]float64{}
	for _, b := range borders {
		shared[key(b.between[0], b.between[1])] += math.Hypot(b.to.x-b.from.x, b.to.y-b.from.y)
	}
	next := map[[2]string]bool{}
	for p := range m.PlaceCount() {
		for kind := diplomacy.Army; kind <= diplomacy.Fleet; kind++ {
			for _, q := range m.Neighbors(kind, diplomacy.Place(p)) {
				next[key(m.ProvinceID(m.Province(diplomacy.Place(p))), m.ProvinceID(m.Province(q)))] = true
			}
		}
	}
	const visible = 8
	for pair := range next {
		if shared[pair] < visible {
			t.Errorf("%s and %s are neighbours but share %.0f of border", pair[0], pair[1], shared[pair])
		}
	}
	for pair, length := range shared {
		_, okA := m.PlaceByName(pair[0])
		_, okB := m.PlaceByName(pair[1])
		if okA && okB && !next[pair] && length >= visible {
			t.Errorf("%s and %s share %.0f of border but are no neighbours", pair[0], pair[1], length)
		}
	}
}

func key(a, b string) [2]string { return [2]string{min(a, b), max(a, b)} }
