package axiomtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

// dataset is rows and what is known of their fields.
type dataset struct {
	name, description string
	created           time.Time
	retentionDays     int
	mapFields         []string
	fields            map[string]map[string]bool // the types that each has had
	rows              []map[string]any
	byKind            map[string]int // rows that came, by their field kind
	came              int
	dropped           int // of the rows, the oldest that are not kept any more
	last              time.Time
	poison            int
}

func newDataset(name string, at time.Time) *dataset {
	d := &dataset{name: name, created: at, byKind: map[string]int{}, fields: map[string]map[string]bool{}}
	for _, own := range []string{"_time", "_sysTime"} {
		d.fields[own] = map[string]bool{"datetime": true}
	}
	return d
}

// dataset is one by its name; nil if there is none.
func (s *Server) dataset(name string) *dataset {
	if s.datasets == nil {
		s.datasets = map[string]*dataset{}
		if s.Dataset != "" {
			s.datasets[s.Dataset] = newDataset(s.Dataset, time.Now())
		}
	}
	if d := s.datasets[name]; d != nil || s.Dataset != "" || s.Strict || name == "" {
		return d
	}
	s.datasets[name] = newDataset(name, time.Now())
	s.changed()
	return s.datasets[name]
}

func (s *Server) names() []string {
	s.dataset("")
	return slices.Sorted(maps.Keys(s.datasets))
}

// typeName is the type of a field's value, as Axiom's list of fields has it.
func typeName(v any) string {
	switch v := v.(type) {
	case bool:
		return "boolean"
	case float64:
		if v == float64(int64(v)) {
			return "integer"
		}
		return "float"
	case string:
		return "string"
	case time.Time:
		return "datetime"
	case []any:
		return "array"
	case map[string]any:
		return "map[string]"
	}
	return "unknown"
}

// newFields are the names of a row that the dataset does not have yet.
func (d *dataset) newFields(row map[string]any) []string {
	var names []string
	for name := range row {
		if d.fields[name] == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (d *dataset) take(row map[string]any, limits Limits) {
	for name, v := range row {
		if d.fields[name] == nil {
			d.fields[name] = map[string]bool{}
		}
		if v != nil {
			d.fields[name][typeName(v)] = true
		}
	}
	d.rows = append(d.rows, row)
	if len(d.rows) > limits.Rows {
		d.rows = slices.Clone(d.rows[len(d.rows)-limits.Rows*9/10:])
		d.dropped = d.came + 1 - len(d.rows)
	}
	kind, _ := row["kind"].(string)
	d.byKind[kind]++
	d.came++
	d.last, _ = row["_sysTime"].(time.Time)
}

// columns are the names of all fields.
func (d *dataset) columns() []string { return slices.Sorted(maps.Keys(d.fields)) }

func (d *dataset) document() map[string]any {
	return map[string]any{"id": d.name, "name": d.name, "description": d.description, "who": "fake",
		"kind": "axiom:events:v1", "created": d.created.UTC().Format(time.RFC3339Nano), "canWrite": true,
		"useRetentionPeriod": d.retentionDays > 0, "retentionDays": d.retentionDays, "mapFields": slices.Clone(d.mapFields)}
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

type datasetRequest struct {
	Name               string `json:"name"`
	Description        string `json:"description"`
	UseRetentionPeriod bool   `json:"useRetentionPeriod"`
	RetentionDays      int    `json:"retentionDays"`
	Kind               string `json:"kind"`
}

func (s *Server) createDataset(w http.ResponseWriter, r *http.Request) {
	var req datasetRequest
	if !readJSON(w, r, &req) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !datasetName.MatchString(req.Name) || strings.HasPrefix(req.Name, "axiom-"):
		refuse(w, http.StatusBadRequest, "name %q: want up to 80 letters, digits, dashes, dots and underscores", req.Name)
		return
	case slices.Contains(s.names(), req.Name):
		refuse(w, http.StatusConflict, "dataset %s exists", req.Name)
		return
	case len(s.datasets) >= s.Limits.withDefaults().Datasets:
		refuse(w, http.StatusForbidden, "the plan allows %d datasets", len(s.datasets))
		return
	}
	d := newDataset(req.Name, time.Now())
	d.description = req.Description
	if req.UseRetentionPeriod {
		d.retentionDays = req.RetentionDays
	}
	s.datasets[req.Name] = d
	s.changed()
	answer(w, http.StatusOK, d.document())
}

// named finds the dataset of a request, under the lock; nil: it is answered that there is none.
func (s *Server) named(w http.ResponseWriter, r *http.Request) *dataset {
	s.names()
	d := s.datasets[r.PathValue("dataset")]
	if d == nil {
		refuse(w, http.StatusNotFound, "dataset not found")
	}
	return d
}

// withDataset serves a call about a dataset, under the lock.
func (s *Server) withDataset(w http.ResponseWriter, r *http.Request, serve func(*dataset)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := s.named(w, r); d != nil {
		serve(d)
	}
}

func (s *Server) getDataset(w http.ResponseWriter, r *http.Request) {
	s.withDataset(w, r, func(d *dataset) { answer(w, http.StatusOK, d.document()) })
}

func (s *Server) updateDataset(w http.ResponseWriter, r *http.Request) {
	var req datasetRequest
	if !readJSON(w, r, &req) {
		return
	}
	s.withDataset(w, r, func(d *dataset) {
		d.description, d.retentionDays = req.Description, 0
		if req.UseRetentionPeriod {
			d.retentionDays = req.RetentionDays
		}
		s.changed()
		answer(w, http.StatusOK, d.document())
	})
}

func (s *Server) deleteDataset(w http.ResponseWriter, r *http.Request) {
	s.withDataset(w, r, func(d *dataset) {
		delete(s.datasets, d.name)
		s.changed()
		w.WriteHeader(http.StatusNoContent)
	})
}

func (s *Server) trimDataset(w http.ResponseWriter, r *http.Request) {
	var req struct {
		MaxDuration string `json:"maxDuration"`
	}
	if !readJSON(w, r, &req) {
		return
	}
	keep, err := time.ParseDuration(req.MaxDuration)
	if err != nil {
		refuse(w, http.StatusBadRequest, "maxDuration: %v", err)
		return
	}
	s.withDataset(w, r, func(d *dataset) {
		oldest := time.Now().Add(-keep)
		d.rows = slices.DeleteFunc(d.rows, func(row map[string]any) bool { return row["_time"].(time.Time).Before(oldest) })
		w.WriteHeader(http.StatusNoContent)
	})
}

// vacuumDataset forgets the fields that no row has.
func (s *Server) vacuumDataset(w http.ResponseWriter, r *http.Request) {
	s.withDataset(w, r, func(d *dataset) {
		fresh := newDataset(d.name, d.created)
		for _, row := range d.rows {
			for name := range row {
				fresh.fields[name] = d.fields[name]
			}
		}
		d.fields = fresh.fields
		answer(w, http.StatusOK, map[string]any{})
	})
}

func (s *Server) listFields(w http.ResponseWriter, r *http.Request) {
	s.withDataset(w, r, func(d *dataset) {
		list := []any{}
		for _, name := range d.columns() {
			types := strings.Join(slices.Sorted(maps.Keys(d.fields[name])), "|")
			list = append(list, map[string]any{"name": name, "type": types, "unit": "", "hidden": false, "description": ""})
		}
		answer(w, http.StatusOK, list)
	})
}

func (s *Server) listMapFields(w http.ResponseWriter, r *http.Request) {
	s.withDataset(w, r, func(d *dataset) { answer(w, http.StatusOK, append([]string{}, d.mapFields...)) })
}

func (s *Server) createMapField(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Name string `json:"name"`
	}
	if !readJSON(w, r, &req) {
		return
	}
	s.withDataset(w, r, func(d *dataset) {
		if err := d.declare(append(slices.Clone(d.mapFields), req.Name)); err != nil {
			refuse(w, http.StatusConflict, "%v", err)
			return
		}
		s.changed()
		answer(w, http.StatusOK, req)
	})
}

func (s *Server) updateMapFields(w http.ResponseWriter, r *http.Request) {
	var names []string
	if !readJSON(w, r, &names) {
		return
	}
	s.withDataset(w, r, func(d *dataset) {
		if err := d.declare(names); err != nil {
			refuse(w, http.StatusBadRequest, "%v", err)
			return
		}
		s.changed()
		answer(w, http.StatusOK, d.mapFields)
	})
}

// declare makes these, and no others, the map fields. Each is one field, whatever it holds.
func (d *dataset) declare(names []string) error {
	for i, name := range names {
		if name == "" || slices.Contains(names[:i], name) {
			return fmt.Errorf("map field %q is there already, or has no name", name)
		}
	}
	d.mapFields = names
	for _, name := range names {
		if d.fields[name] == nil {
			d.fields[name] = map[string]bool{"map[string]": true}
		}
	}
	return nil
}

func (s *Server) deleteMapField(w http.ResponseWriter, r *http.Request) {
	s.withDataset(w, r, func(d *dataset) {
		i := slices.Index(d.mapFields, r.PathValue("field"))
		if i < 0 {
			refuse(w, http.StatusNotFound, "map field not found")
			return
		}
		d.mapFields = slices.Delete(d.mapFields, i, i+1)
		s.changed()
		w.WriteHeader(http.StatusNoContent)
	})
}
