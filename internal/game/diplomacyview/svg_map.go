package diplomacyview

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"math"
	"os"
	"path/filepath"

	"github.com/millrace/millrace/internal/game/diplomacy"
)

// The drawing is a header above, the map, and a panel with all orders at its right.
const (
	headerHeight = 60
	panelWidth   = 330
	mapWidth     = 1200
	mapHeight    = 1000
)

// SVGs draws every phase of a game into dir, which it creates, and returns the files in the order of the phases.
func SVGs(dir, phase string, game *diplomacy.SavedGame) (files []string, err error) {
	if _, known := mapOf(game); !known {
		return nil, errNotDrawn(game)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("draw game: %w", err)
	}
	for i := range game.Phases {
		if phase != "" && game.Phases[i].Name != phase {
			continue
		}
		var picture bytes.Buffer
		file := filepath.Join(dir, fmt.Sprintf("%03d-%s.svg", i+1, game.Phases[i].Name))
		err := SVG(&picture, game, i)
		if err == nil {
			err = os.WriteFile(file, picture.Bytes(), 0o644)
		}
		if err != nil {
			return files, fmt.Errorf("draw game %s: %w", game.ID, err)
		}
		files = append(files, file)
	}
	return files, nil
}

// SVG draws phase number i of a game, counted from 0.
func SVG(w io.Writer, game *diplomacy.SavedGame, i int) error {
	m, known := mapOf(game)
	if !known {
		return errNotDrawn(game)
	}
	if i < 0 || i >= len(game.Phases) {
		return fmt.Errorf("game %s has no phase %d", game.ID, i)
	}
	p, err := readPhase(m, &game.Phases[i])
	if err != nil {
		return err
	}
	_, err = w.Write(draw(&p).buf)
	return err
}

// drawing is one SVG file while it is written.
type drawing struct {
	atlas *atlas
	m     *diplomacy.Map
	phase *phase
	buf   []byte
}

func draw(p *phase) *drawing {
	d := &drawing{atlas: standardAtlas(), m: p.state.Map(), phase: p}
	width, height := mapWidth+panelWidth, mapHeight+headerHeight
	d.put(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">`, width,
		height, width, height)
	d.put(`<title>%s</title><style>%s</style>`, html.EscapeString(title(p.state.Phase())), style)
	d.put(`<defs><pattern id="rock" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">` +
		`<rect class="bare" width="7" height="7"/><path class="hatch" d="M0 0v7"/></pattern></defs>`)
	d.put(`<rect class="paper" width="%d" height="%d"/>`, width, height)
	d.header()
	d.put(`<svg y="%d" width="%d" height="%d">`, headerHeight, mapWidth, mapHeight)
	d.ground()
	d.marks()
	d.put(`</svg>`)
	d.panel()
	d.put("</svg>\n")
	return d
}

func (d *drawing) put(format string, args ...any) {
	d.buf = fmt.Appendf(d.buf, format, args...)
	d.buf = append(d.buf, '\n')
}

// ground draws the provinces, whose they are, and their borders.
func (d *drawing) ground() {
	for _, area := range d.atlas.Areas {
		kind, name, tint := "rock", "", ""
		if at, ok := d.m.PlaceByName(area.Name); ok {
			province := diplomacy.Province(at)
			kind, name = "land", d.m.ProvinceName(province)
			if d.m.Terrain(province) == diplomacy.Sea {
				kind = "sea"
			} else if owner := d.holder(province); owner != diplomacy.NoPower {
				tint = fmt.Sprintf("tint f%d", int(owner)%7)
			}
		}
		d.put(`<g><title>%s</title><path class="%s" d="%s"/>`, html.EscapeString(name), kind, area.Outline)
		if tint != "" {
			d.put(`<path class="%s" d="%s"/>`, tint, area.Outline)
		}
		d.put(`</g>`)
	}
	for _, kind := range []string{"border", "border wet", "coast"} {
		d.put(`<path class="%s" d="%s"/>`, kind, d.atlas.Borders[kind])
	}
}

// holder is whose colour a province has: its owner's if it is a centre, else its last visitor's.
func (d *drawing) holder(at diplomacy.Province) diplomacy.Power {
	if d.m.IsCenter(at) {
		return d.phase.state.Owner(at)
	}
	return d.phase.state.LastVisitor(at)
}

// toward is the point at distance r from p in the direction of q.
func toward(p, q point, r float64) point {
	length := math.Hypot(q.x-p.x, q.y-p.y)
	if length == 0 {
		return p
	}
	return point{p.x + r*(q.x-p.x)/length, p.y + r*(q.y-p.y)/length}
}

// errNotDrawn says why a game has no maps.
func errNotDrawn(game *diplomacy.SavedGame) error {
	return fmt.Errorf("game %s is on the board %q, and there is a drawing of the standard board only: where its "+
		"provinces lie is not known. Its orders and centres can be shown without maps", game.ID, game.Map)
}
