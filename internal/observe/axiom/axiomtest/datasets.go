package axiomtest

import (
	"encoding/json"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

// dataset is rows, and the fields that they have had.
type dataset struct {
	name, description string
	mapFields         []string
	fields            map[string]bool
	rows              []map[string]any
	poison            int
}

func newDataset(name string) *dataset {
	return &dataset{name: name, fields: map[string]bool{"_time": true, "_sysTime": true}}
}

// dataset is one by its name; nil if there is none.
func (s *Server) dataset(name string) *dataset {
	if s.datasets == nil {
		s.datasets = map[string]*dataset{}
		if s.Dataset != "" {
			s.datasets[s.Dataset] = newDataset(s.Dataset)
		}
	}
	if d := s.datasets[name]; d != nil || s.Dataset != "" || s.Strict || name == "" {
		return d
	}
	s.datasets[name] = newDataset(name)
	return s.datasets[name]
}

func (s *Server) names() []string {
	s.dataset("")
	return slices.Sorted(maps.Keys(s.datasets))
}

// newFields are the names of a row that the dataset does not have yet.
func (d *dataset) newFields(row map[string]any) []string {
	var names []string
	for name := range row {
		if !d.fields[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (d *dataset) take(row map[string]any, limits Limits) {
	for name := range row {
		d.fields[name] = true
	}
	d.rows = append(d.rows, row)
	if len(d.rows) > limits.Rows {
		d.rows = slices.Clone(d.rows[len(d.rows)-limits.Rows*9/10:])
	}
}

func (d *dataset) document() map[string]any {
	return map[string]any{"id": d.name, "name": d.name, "description": d.description, "kind": "axiom:events:v1",
		"created": time.Now().UTC().Format(time.RFC3339Nano), "mapFields": slices.Clone(d.mapFields)}
}

func (s *Server) listDatasets(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []any{}
	for _, name := range s.names() {
		list = append(list, s.datasets[name].document())
	}
	answer(w, http.StatusOK, list)
}

// datasetName is what Axiom's pages allow.
var datasetName = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9._-]{0,78}[a-zA-Z0-9])?$`)

// readJSON reads a body strictly: keys that the call does not have are an error, as in Axiom.
func readJSON(w http.ResponseWriter, r *http.Request, v any) bool {
	if typ := r.Header.Get("Content-Type"); !strings.HasPrefix(typ, "application/json") {
		refuse(w, http.StatusBadRequest, "content type %q: want application/json", typ)
		return false
	}
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		refuse(w, http.StatusBadRequest, "%v", err)
		return false
	}
	return true
}

func (s *Server) createDataset(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Name        string `json:"name"`
		Description string `json:"description"`
		Kind        string `json:"kind"`
	}
	if !readJSON(w, r, &req) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !datasetName.MatchString(req.Name) || strings.HasPrefix(req.Name, "axiom-"):
		refuse(w, http.StatusBadRequest, "name %q: want up to 80 letters, digits, dashes, dots and underscores", req.Name)
	case slices.Contains(s.names(), req.Name):
		refuse(w, http.StatusConflict, "dataset %s exists", req.Name)
	case len(s.datasets) >= s.Limits.withDefaults().Datasets:
		refuse(w, http.StatusForbidden, "the plan allows %d datasets", len(s.datasets))
	default:
		d := newDataset(req.Name)
		d.description = req.Description
		s.datasets[req.Name] = d
		answer(w, http.StatusOK, d.document())
	}
}

// withDataset serves a call about a dataset, under the lock.
func (s *Server) withDataset(w http.ResponseWriter, r *http.Request, serve func(*dataset)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names()
	d := s.datasets[r.PathValue("dataset")]
	if d == nil {
		refuse(w, http.StatusNotFound, "dataset not found")
		return
	}
	serve(d)
}

func (s *Server) getDataset(w http.ResponseWriter, r *http.Request) {
	s.withDataset(w, r, func(d *dataset) { answer(w, http.StatusOK, d.document()) })
}

func (s *Server) listFields(w http.ResponseWriter, r *http.Request) {
	s.withDataset(w, r, func(d *dataset) {
		list := []any{}
		for _, name := range slices.Sorted(maps.Keys(d.fields)) {
			list = append(list, map[string]any{"name": name, "unit": "", "hidden": false, "description": ""})
		}
		answer(w, http.StatusOK, list)
	})
}

func (s *Server) listMapFields(w http.ResponseWriter, r *http.Request) {
	s.withDataset(w, r, func(d *dataset) { answer(w, http.StatusOK, append([]string{}, d.mapFields...)) })
}

// createMapField declares a map field: it is one field, whatever it holds.
func (s *Server) createMapField(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Name string `json:"name"`
	}
	if !readJSON(w, r, &req) {
		return
	}
	s.withDataset(w, r, func(d *dataset) {
		if req.Name == "" || slices.Contains(d.mapFields, req.Name) {
			refuse(w, http.StatusConflict, "map field %q is there already, or has no name", req.Name)
			return
		}
		d.mapFields = append(d.mapFields, req.Name)
		d.fields[req.Name] = true
		answer(w, http.StatusOK, req)
	})
}
