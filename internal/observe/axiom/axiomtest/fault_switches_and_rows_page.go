package axiomtest

import (
	"html/template"
	"maps"
	"net/http"
	"slices"
	"time"

	"encoding/json"
)

var pageHTML = template.Must(template.New("page").Parse(`<!doctype html><meta charset="utf-8">
<meta http-equiv="refresh" content="5"><title>fake Axiom</title>
<style>body{font:14px sans-serif;margin:2em} td,th{text-align:left;padding:0 1em 0 0;vertical-align:top}</style>
<h1>Fake Axiom</h1><p>{{.Requests}} requests to ingest.</p>
<form method="post"><table><tr><th>fault<th>met<th>what it does</tr>{{range .Faults}}
<tr><td><button name="fault" value="{{.Name}}">{{if .On}}switch off{{else}}switch on{{end}} {{.Name}}</button>
<td>{{.Hits}}<td>{{.Text}}</tr>{{end}}</table></form>
{{range .Datasets}}<h2>{{.Name}}: {{.Count}} rows, {{.Fields}} fields</h2><table>{{range .Rows}}
<tr><td>{{.At}}<td>{{.Kind}}<td>{{.Text}}</tr>{{end}}</table>{{end}}`))

type pageDataset struct {
	Name          string
	Count, Fields int
	Rows          []pageRow // the newest first
}

type pageRow struct{ At, Kind, Text string }

// pageRows is how many rows of a dataset the page shows.
const pageRows = 200

// page shows faults and the newest rows. It needs no token and meets no fault.
func (s *Server) page(w http.ResponseWriter, _ *http.Request) {
	faults := s.Faults()
	s.mu.Lock()
	defer s.mu.Unlock()
	shown := struct {
		Requests int
		Faults   []FaultSwitch
		Datasets []pageDataset
	}{s.requests, faults, nil}
	for _, name := range slices.Sorted(maps.Keys(s.datasets)) {
		shown.Datasets = append(shown.Datasets, s.datasets[name].shown())
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = pageHTML.Execute(w, shown) // a browser that has gone needs no page
}

func (d *dataset) shown() pageDataset {
	shown := pageDataset{Name: d.name, Count: len(d.rows), Fields: len(d.fields)}
	for _, row := range slices.Backward(d.rows[max(0, len(d.rows)-pageRows):]) {
		e := eventOf(row)
		at, _ := row["_time"].(time.Time)
		kind, _ := e["kind"].(string)
		delete(e, "_time")
		delete(e, "kind")
		text, err := json.Marshal(e)
		if err != nil {
			text = []byte(err.Error())
		}
		shown.Rows = append(shown.Rows, pageRow{at.Format("15:04:05.000"), kind, string(text)})
	}
	return shown
}

// switchOnPage switches a fault over.
func (s *Server) switchOnPage(w http.ResponseWriter, r *http.Request) {
	name := r.FormValue("fault")
	s.mu.Lock()
	on := s.switches[name]
	s.mu.Unlock()
	if err := s.Switch(name, !on); err != nil {
		refuse(w, http.StatusBadRequest, "%v", err)
		return
	}
	http.Redirect(w, r, "/", http.StatusSeeOther)
}
