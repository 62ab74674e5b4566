package diplomacyview

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/game/diplomacy"
)

func TestSVGs(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "maps")
	game := opening(t)
	files, err := SVGs(dir, "", game)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(game.Phases) || filepath.Base(files[1]) != "002-F1901M.svg" {
		t.Errorf("files %v", files)
	}
	for i, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		mustBeXML(t, b)
		p, err := readPhase(diplomacy.Standard(), &game.Phases[i])
		if err != nil {
			t.Fatal(err)
		}
		want := 0
		for u := range diplomacy.Standard().Powers() {
			want += p.state.UnitCount(diplomacy.Power(u))
		}
		want += strings.Count(strings.Join(orderTexts(&p), "\n")+"\n", " B\n")
		if got := bytes.Count(b, []byte(`class="unit `)); got != want {
			t.Errorf("%s: %d units drawn, want %d", file, got, want)
		}
	}
}

func orderTexts(p *phase) []string {
	var texts []string
	for _, list := range p.orders {
		for _, o := range list {
			texts = append(texts, o.text)
		}
	}
	return texts
}

func mustBeXML(t *testing.T, b []byte) {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(b))
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestSVGDrawsEveryKindOfOrder(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		phase int
		want  []string
	}{
		{0, []string{`order move s`, `move failed`, `class="cross"`, `order aid`}},
		{1, []string{`order carry`, `order aid`, `move failed`}},
		{2, []string{`ring new`}},
		{3, []string{`class="bad">void, dislodged`, `class="ring"`}},
		{4, []string{`class="ring"`, `order flee`}},
		{6, []string{`class="cross"`}},
	} {
		var b bytes.Buffer
		if err := SVG(&b, opening(t), tt.phase); err != nil {
			t.Fatal(err)
		}
		for _, want := range tt.want {
			// The legend has every mark once.
			if body := b.String()[strings.Index(b.String(), `<svg y=`):]; !strings.Contains(body, want) {
				t.Errorf("phase %d has no %s", tt.phase, want)
			}
		}
	}
	if err := SVG(io.Discard, opening(t), 99); err == nil {
		t.Error("phase 99: want an error")
	}
}

type box struct {
	what       string
	x, y, w, h float64
}

func (b box) overlaps(c box) bool {
	return math.Abs(b.x-c.x) < (b.w+c.w)/2 && math.Abs(b.y-c.y) < (b.h+c.h)/2
}

// No name covers another name or a unit of another province, and no two units cover each other, wherever they stand.
func TestNothingOverlaps(t *testing.T) {
	t.Parallel()
	m := diplomacy.Standard()
	d := &drawing{atlas: standardAtlas(), m: m, phase: &phase{state: diplomacy.NewGame(m)}}
	var names, units []box
	at := regexp.MustCompile(`<text class="[^"]*" x="([\d.]+)" y="([\d.]+)"`)
	for p := range m.ProvinceCount() {
		name := m.ProvinceID(diplomacy.Province(p))
		d.buf = d.buf[:0]
		d.name(name)
		found := at.FindSubmatch(d.buf)
		names = append(names, box{name, number(t, found[1]), number(t, found[2]) - 4, 30, 11})
	}
	for p := range m.PlaceCount() {
		place := diplomacy.Place(p)
		pt := d.anchor(place)
		units = append(units, box{m.ProvinceID(m.Province(place)), pt.x, pt.y, 25, 25})
	}
	for i, b := range names {
		for _, c := range names[i+1:] {
			if b.overlaps(c) {
				t.Errorf("the names %s and %s overlap", b.what, c.what)
			}
		}
		for _, u := range units {
			if b.overlaps(u) && b.what != u.what {
				t.Errorf("the name %s overlaps a unit in %s", b.what, u.what)
			}
		}
	}
	for i, b := range units {
		for _, c := range units[i+1:] {
			if b.overlaps(c) && b.what != c.what {
				t.Errorf("units in %s and %s overlap", b.what, c.what)
			}
		}
	}
}

// A second unit, with the ring of the dislodged, stands clear of names and of the units of other provinces.
func TestDislodgedUnitsHaveRoom(t *testing.T) {
	t.Parallel()
	m := diplomacy.Standard()
	a := standardAtlas()
	for p := range m.PlaceCount() {
		name := m.PlaceName(diplomacy.Place(p))
		if room := a.room(m, m.ProvinceID(m.Province(diplomacy.Place(p))), a.Places[name].Beside); room < 0 {
			t.Errorf("a unit dislodged from %s covers something by %.0f", name, -room)
		}
	}
}

func number(t *testing.T, b []byte) float64 {
	t.Helper()
	x, err := strconv.ParseFloat(string(b), 64)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// Few programs besides browsers know CSS variables and media queries: to them a map is what its plain rules say, with a
// colour for everything that is drawn.
func TestMapsHaveTheirColoursOutsideOfBrowsers(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := SVG(&b, opening(t), 1); err != nil {
		t.Fatal(err)
	}
	if name := regexp.MustCompile(`var\([^)]*\)`).Find(b.Bytes()); name != nil {
		t.Errorf("the map uses the variable %s", name)
	}
	plain, _, _ := strings.Cut(style, "@media")
	coloured := map[string]bool{}
	for _, rule := range regexp.MustCompile(`([^{}]+){([^}]*)}`).FindAllStringSubmatch(plain, -1) {
		if regexp.MustCompile(`(fill|stroke):(#|none|url)`).MatchString(rule[2]) {
			for _, class := range regexp.MustCompile(`\.[\w-]+`).FindAllString(rule[1], -1) {
				coloured[class[1:]] = true
			}
		}
	}
	for _, shape := range regexp.MustCompile(`<(?:path|circle|rect) class="([^"]*)"`).FindAllStringSubmatch(b.String(),
		-1) {
		if !slices.ContainsFunc(strings.Fields(shape[1]), func(class string) bool { return coloured[class] }) {
			t.Errorf("no rule gives class %q a colour", shape[1])
		}
	}
}
