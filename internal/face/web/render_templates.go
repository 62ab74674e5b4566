package web

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/face/web/pageview"
	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/scaling"
)

//go:embed templates
var templateFiles embed.FS

// content is what a page shows: a template, and its data.
type content struct {
	template, title string
	heading         string // what the page is below its crumbs; empty: the title
	crumbs          []crumb
	live            bool // a browser asks for it again and again
	data            any
}

// crumb is a page above this one.
type crumb struct{ Text, Href string }

// templates are the pages, each with the layout around it.
type templates struct {
	by     map[string]*template.Template
	assets map[string]string // the tags of embedded files
	name   string            // the deployment's
}

func readTemplates(deployment string) (templates, error) {
	assets, err := readAssets()
	if err != nil {
		return templates{}, err
	}
	t := templates{map[string]*template.Template{}, assets, deployment}
	files, err := fs.Glob(templateFiles, "templates/pages/*.html")
	if err != nil {
		return t, fmt.Errorf("read the page's templates: %w", err)
	}
	for _, file := range files {
		page, err := template.New("layout.html").Funcs(functions()).
			ParseFS(templateFiles, "templates/*.html", file)
		if err != nil {
			return t, fmt.Errorf("read the page's templates: %w", err)
		}
		t.by[strings.TrimSuffix(path.Base(file), ".html")] = page
	}
	return t, nil
}

// make writes a page.
func (t templates) make(v *visit, c content) (made, error) {
	page, known := t.by[c.template]
	if !known {
		return made{}, fmt.Errorf("there is no page %q", c.template)
	}
	var b bytes.Buffer
	err := page.Execute(&b, struct {
		Base, Title, Here, Deployment, Who, Role, Style, Script string
		Live, LoggedIn, SeesFleet                               bool
		Crumbs                                                  []crumb
		Page                                                    any
	}{
		v.base, c.title, cmp.Or(c.heading, c.title), t.name, v.grant.Name, string(v.grant.Role), t.assets["page.css"],
		t.assets["page.js"], c.live, v.loggedIn, v.grant.CoversAll(), c.crumbs, c.data,
	})
	if err != nil {
		return made{}, fmt.Errorf("write page %s: %w", c.template, err)
	}
	return newMade("", []byte(pageview.Named(b.String()))), nil
}

// functions are what templates say values with.
func functions() template.FuncMap {
	type bar struct {
		Class   string
		Percent float64
	}
	return template.FuncMap{
		"when": when, "short": short, "since": func(t time.Time) bool { return !t.IsZero() },
		"seconds": units.Seconds, "number": units.Number, "count": pageview.Count,
		"share": units.Share, "graded": pageview.Graded,
		"percent": units.Percent, "signed": pageview.SignedPercent, "rate": pageview.Rate, "brief": pageview.Brief,
		"known":   pageview.Known,
		"than":    pageview.Than,
		"bar":     func(class string, share float64) bar { return bar{class, 100 * share} },
		"outcome": pageview.OutcomeClass,
		"game":    pageview.GamePath,
		"measured": func(all []scaling.Effect) string {
			return pageview.Effects(all, func(e scaling.Effect) float64 { return e.MeasuredSec })
		},
		"predicted": func(all []scaling.Effect) string {
			return pageview.Effects(all, func(e scaling.Effect) float64 { return e.PredictedSec })
		},
	}
}

// when is a moment: in UTC, which the page's script says in the reader's time zone, with UTC when it is pointed at.
func when(t time.Time) template.HTML {
	if t.IsZero() {
		return ""
	}
	t = t.UTC()
	return template.HTML(fmt.Sprintf(`<time datetime="%s" title="%s">%s</time>`, t.Format("2006-01-02T15:04:05.000Z"),
		t.Format("2006-01-02 15:04:05 UTC"), t.Format("2006-01-02 15:04:05 UTC")))
}

// short is a moment in a table of many: in UTC for all.
func short(t time.Time) string { return t.UTC().Format("01-02 15:04:05") }
