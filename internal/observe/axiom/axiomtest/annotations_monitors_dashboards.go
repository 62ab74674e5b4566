package axiomtest

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

// document is a resource as JSON has it; documents are those of a kind, in the order in which they were made.
type (
	document  = map[string]any
	documents []document
)

// Annotations are those that were made, in order.
func (s *Server) Annotations() []Annotation {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Annotation
	for _, doc := range s.annotations {
		a := Annotation{Type: text(doc, "type"), Title: text(doc, "title"), Description: text(doc, "description")}
		a.ID = text(doc, "id")
		a.Time, _ = time.Parse(time.RFC3339, text(doc, "time")) // it was checked
		all = append(all, a)
	}
	return all
}

// Annotation is a mark on the charts of datasets.
type Annotation struct {
	ID, Type, Title, Description string
	Time                         time.Time
}

func text(doc document, key string) string {
	s, _ := doc[key].(string)
	return s
}

func (s *Server) list(of *documents) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		answer(w, http.StatusOK, append(documents{}, *of...))
	}
}

// create makes a document that check does not refuse.
func (s *Server) create(of *documents, check func(document) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var doc document
		if !readJSON(w, r, &doc) {
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if !checked(w, doc, check) {
			return
		}
		s.created++
		doc["id"] = fmt.Sprintf("made_%06d", s.created)
		if board, is := doc["dashboard"].(document); is {
			doc["uid"], doc["version"] = doc["id"], 1
			board["owner"] = "X-AXIOM-EVERYONE"
		}
		*of = append(*of, doc)
		answer(w, http.StatusOK, doc)
	}
}

// update replaces a document.
func (s *Server) update(of *documents, check func(document) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var doc document
		if !readJSON(w, r, &doc) {
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		i := slices.IndexFunc(*of, func(old document) bool { return old["id"] == r.PathValue("id") })
		if i < 0 {
			refuse(w, http.StatusNotFound, "%s not found", r.PathValue("id"))
			return
		}
		if !checked(w, doc, check) {
			return
		}
		old := (*of)[i]
		if version, versioned := old["version"].(int); versioned {
			if fmt.Sprint(doc["version"]) != fmt.Sprint(version) && doc["overwrite"] != true {
				refuse(w, http.StatusPreconditionFailed, "the dashboard is at version %d", version)
				return
			}
			doc["uid"], doc["version"] = old["uid"], version+1
			doc["dashboard"].(document)["owner"] = "X-AXIOM-EVERYONE"
		}
		doc["id"] = old["id"]
		(*of)[i] = doc
		answer(w, http.StatusOK, doc)
	}
}

// planLimit is what the plan does not allow.
type planLimit struct{ error }

func checked(w http.ResponseWriter, doc document, check func(document) error) bool {
	err := check(doc)
	if err == nil {
		return true
	}
	status := http.StatusBadRequest
	if _, is := err.(planLimit); is {
		status = http.StatusForbidden
	}
	refuse(w, status, "%v", err)
	return false
}

// known refuses keys that a resource does not have.
func known(doc document, keys string) error {
	for _, key := range slices.Sorted(maps.Keys(doc)) {
		if !slices.Contains(strings.Fields(keys), key) {
			return fmt.Errorf("unknown field %q", key)
		}
	}
	return nil
}

var annotationType = regexp.MustCompile(`^[a-z0-9-]+$`)

func (s *Server) checkAnnotation(doc document) error {
	if err := known(doc, "datasets type time endTime title description url"); err != nil {
		return err
	}
	datasets, _ := doc["datasets"].([]any)
	at, err := time.Parse(time.RFC3339, text(doc, "time"))
	switch {
	case len(datasets) == 0:
		return fmt.Errorf("datasets: at least one is required")
	case !annotationType.MatchString(text(doc, "type")):
		return fmt.Errorf("type %q: want lowercase letters, digits and dashes", text(doc, "type"))
	case err != nil || at.Year() == 1:
		return fmt.Errorf("time %q: want one after the year 1", text(doc, "time"))
	}
	for _, name := range datasets {
		if s.dataset(fmt.Sprint(name)) == nil {
			return fmt.Errorf("dataset %s not found", name)
		}
	}
	return nil
}

func checkNotifier(doc document) error {
	if properties, _ := doc["properties"].(document); text(doc, "name") == "" || len(properties) != 1 {
		return fmt.Errorf("a notifier has a name and one kind of properties")
	}
	return nil
}

func (s *Server) checkNewMonitor(doc document) error {
	if most := s.Limits.withDefaults().Monitors; len(s.monitors) >= most {
		return planLimit{fmt.Errorf("the plan allows %d monitors", most)}
	}
	return s.checkMonitor(doc)
}

const monitorKeys = "id name description type aplQuery operator threshold alertOnNoData notifyByGroup resolvable " +
	"notifierIds intervalMinutes rangeMinutes disabled"

func (s *Server) checkMonitor(doc document) error {
	if err := known(doc, monitorKeys); err != nil {
		return err
	}
	interval, _ := doc["intervalMinutes"].(float64)
	span, _ := doc["rangeMinutes"].(float64)
	operators := []string{"Below", "BelowOrEqual", "Above", "AboveOrEqual", "AboveOrBelow"}
	switch {
	case text(doc, "name") == "":
		return fmt.Errorf("name is required")
	case text(doc, "type") == "Threshold" && !slices.Contains(operators, text(doc, "operator")):
		return fmt.Errorf("operator %q: want one of %s", text(doc, "operator"), strings.Join(operators, ", "))
	case interval < 1 || span < 1:
		return fmt.Errorf("intervalMinutes and rangeMinutes: want at least 1")
	}
	ids, _ := doc["notifierIds"].([]any)
	for _, id := range ids {
		if !slices.ContainsFunc(s.notifiers, func(n document) bool { return n["id"] == id }) {
			return fmt.Errorf("notifier %s not found", id)
		}
	}
	return s.checkQuery(text(doc, "aplQuery"))
}

var ofDataset = regexp.MustCompile(`^\['([^']+)'\]`)

// checkQuery checks that a query names a dataset that is there. What else it says is not read.
func (s *Server) checkQuery(apl string) error {
	named := ofDataset.FindStringSubmatch(apl)
	if named == nil || s.dataset(named[1]) == nil {
		return fmt.Errorf("dataset not found in the query %q", apl)
	}
	return nil
}

const dashboardKeys = "name owner description charts layout refreshTime schemaVersion timeWindowStart timeWindowEnd"

func (s *Server) checkDashboard(doc document) error {
	board, _ := doc["dashboard"].(document)
	if err := known(board, dashboardKeys); err != nil {
		return err
	}
	switch {
	case text(board, "name") == "":
		return fmt.Errorf("name is required")
	case text(board, "owner") != "" && text(board, "owner") != "X-AXIOM-EVERYONE":
		return fmt.Errorf("owner: an API token makes dashboards of the organization alone: want the empty text")
	case !slices.Contains([]any{15.0, 60.0, 300.0}, board["refreshTime"]):
		return fmt.Errorf("refreshTime %v: want 15, 60 or 300", board["refreshTime"])
	case board["schemaVersion"] != 2.0:
		return fmt.Errorf("schemaVersion %v: want 2", board["schemaVersion"])
	}
	return s.checkCharts(board)
}

func (s *Server) checkCharts(board document) error {
	placed := map[any]bool{}
	cells, _ := board["layout"].([]any)
	for _, cell := range cells {
		cell, _ := cell.(document)
		x, _ := cell["x"].(float64)
		width, _ := cell["w"].(float64)
		if x < 0 || width < 1 || x+width > 12 {
			return fmt.Errorf("layout of %s: want x and w within 12 columns", cell["i"])
		}
		placed[cell["i"]] = true
	}
	charts, _ := board["charts"].([]any)
	for _, chart := range charts {
		chart, _ := chart.(document)
		if text(chart, "id") == "" || !placed[chart["id"]] {
			return fmt.Errorf("chart %v has no id, or no place in the layout", chart["name"])
		}
		if query, _ := chart["query"].(document); text(chart, "type") != "Note" {
			if err := s.checkQuery(text(query, "apl")); err != nil {
				return fmt.Errorf("chart %s: %w", chart["id"], err)
			}
		}
	}
	return nil
}
