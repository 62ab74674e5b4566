package diplomacyview

import (
	"bufio"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/game/diplomacy"
)

//go:embed standard.layout
var standardLayout string

// sheet is the size of the drawing that layouts use.
var sheet = polygon{{0, 0}, {1200, 0}, {1200, 1000}, {0, 1000}}

type point struct{ x, y float64 }

type polygon []point

// atlas is the geometry of one board.
type atlas struct {
	anchor  map[string]point // by place, and by the name of land that nobody enters
	above   map[string]bool  // provinces with their name above the unit, not below
	beside  map[string]point // by place, where a second unit stands: one that is dislodged
	areas   []area           // in the order of the layout
	borders []border
}

// area is one province: the cells of its sites.
type area struct {
	name  string
	cells []polygon
}

// border is a line between two areas.
type border struct {
	from, to point
	between  [2]string
}

// newAtlas lays out map m; there is a layout of the standard board only.
func newAtlas(m *diplomacy.Map) (*atlas, error) {
	a, err := readLayout(standardLayout)
	if err != nil {
		return nil, err
	}
	for p := range m.PlaceCount() {
		if name := m.PlaceName(diplomacy.Place(p)); a.anchor[name] == (point{}) {
			return nil, fmt.Errorf("no drawing of map %q: %s has no place on the sheet", m.Name(), name)
		}
	}
	a.findRoom(m)
	return a, nil
}

type site struct {
	point
	area int
}

func readLayout(text string) (*atlas, error) {
	a := &atlas{anchor: map[string]point{}, above: map[string]bool{}}
	var sites []site
	for lines, n := bufio.NewScanner(strings.NewReader(text)), 1; lines.Scan(); n++ {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || fields[0] == "#" {
			continue
		}
		if name, above := strings.CutSuffix(fields[0], "^"); above {
			fields[0], a.above[name] = name, true
		}
		for i, field := range fields[1:] {
			var p point
			if _, err := fmt.Sscanf(field, "%g,%g", &p.x, &p.y); err != nil {
				return nil, fmt.Errorf("layout line %d: %q: %w", n, field, err)
			}
			if i == 0 {
				a.anchor[fields[0]] = p
			}
			if !strings.Contains(fields[0], "/") {
				sites = append(sites, site{p, len(a.areas)})
			}
		}
		if !strings.Contains(fields[0], "/") {
			a.areas = append(a.areas, area{name: fields[0]})
		}
	}
	a.divide(sites)
	return a, nil
}

// divide gives every site its cell of the sheet: what is nearer to it than to any other.
func (a *atlas) divide(sites []site) {
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
		a.areas[own.area].cells = append(a.areas[own.area].cells, cell)
		for k, across := range edges {
			if across > i && sites[across].area != own.area {
				a.borders = append(a.borders, border{
					cell[k], cell[(k+1)%len(cell)], [2]string{a.areas[own.area].name, a.areas[sites[across].area].name},
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
