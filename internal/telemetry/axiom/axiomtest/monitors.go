package axiomtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/telemetry/axiom/apl"
)

// Monitors and notifiers are kept as their documents.

func (s *Server) listOf(list *[]map[string]any) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		answer(w, http.StatusOK, append([]map[string]any{}, *list...))
	}
}

// find is the place of a request's document, under the lock; -1: it is answered that there is none.
func find(w http.ResponseWriter, r *http.Request, list []map[string]any) int {
	i := slices.IndexFunc(list, func(m map[string]any) bool { return m["id"] == r.PathValue("id") })
	if i < 0 {
		refuse(w, http.StatusNotFound, "%s not found", r.PathValue("id"))
	}
	return i
}

func (s *Server) getOf(list *[]map[string]any) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if i := find(w, r, *list); i >= 0 {
			answer(w, http.StatusOK, (*list)[i])
		}
	}
}

func (s *Server) deleteOf(list *[]map[string]any) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if i := find(w, r, *list); i >= 0 {
			*list = slices.Delete(*list, i, i+1)
			s.changed()
			w.WriteHeader(http.StatusNoContent)
		}
	}
}

// monitor is what is checked of a monitor's document.
type monitor struct {
	ID                           string   `json:"id,omitempty"`
	Name                         string   `json:"name"`
	Description                  string   `json:"description,omitempty"`
	Type                         string   `json:"type"`
	APLQuery                     string   `json:"aplQuery"`
	Operator                     string   `json:"operator,omitempty"`
	Threshold                    float64  `json:"threshold"`
	AlertOnNoData                bool     `json:"alertOnNoData"`
	NotifyByGroup                bool     `json:"notifyByGroup"`
	Resolvable                   bool     `json:"resolvable"`
	NotifierIDs                  []string `json:"notifierIds"`
	IntervalMinutes              int      `json:"intervalMinutes"`
	RangeMinutes                 int      `json:"rangeMinutes"`
	Disabled                     bool     `json:"disabled"`
	DisabledUntil                string   `json:"disabledUntil,omitempty"`
	SecondDelay                  int      `json:"secondDelay,omitempty"`
	NotifyEveryRun               bool     `json:"notifyEveryRun,omitempty"`
	SkipResolved                 bool     `json:"skipResolved,omitempty"`
	Tolerance                    float64  `json:"tolerance,omitempty"`
	TriggerFromNRuns             int      `json:"triggerFromNRuns,omitempty"`
	TriggerAfterNPositiveResults int      `json:"triggerAfterNPositiveResults,omitempty"`
	CompareDays                  int      `json:"compareDays,omitempty"`
	ColumnName                   string   `json:"columnName,omitempty"`
	CreatedAt                    string   `json:"createdAt,omitempty"`
	CreatedBy                    string   `json:"createdBy,omitempty"`
}

var operators = []string{"Below", "BelowOrEqual", "Above", "AboveOrEqual", "AboveOrBelow"}

func (s *Server) check(m monitor) error {
	if m.Name == "" {
		return fmt.Errorf("name is required")
	}
	switch m.Type {
	case "Threshold":
		if !slices.Contains(operators, m.Operator) {
			return fmt.Errorf("operator %q: want one of %s", m.Operator, strings.Join(operators, ", "))
		}
	case "MatchEvent", "AnomalyDetection":
	default:
		return fmt.Errorf("type %q: want Threshold, MatchEvent or AnomalyDetection", m.Type)
	}
	if m.IntervalMinutes < 1 || m.RangeMinutes < 1 {
		return fmt.Errorf("intervalMinutes and rangeMinutes: want at least 1")
	}
	for _, id := range m.NotifierIDs {
		if !slices.ContainsFunc(s.notifiers, func(n map[string]any) bool { return n["id"] == id }) {
			return fmt.Errorf("notifier %s not found", id)
		}
	}
	q, err := apl.Parse(m.APLQuery)
	if err != nil {
		return fmt.Errorf("aplQuery: %w", err)
	}
	if s.dataset(q.Dataset) == nil {
		return fmt.Errorf("aplQuery: dataset %s not found", q.Dataset)
	}
	if m.Type == "Threshold" && !q.Aggregates() {
		return fmt.Errorf("aplQuery: a threshold monitor needs an aggregation")
	}
	return nil
}

func (s *Server) createMonitor(w http.ResponseWriter, r *http.Request) {
	var m monitor
	if !readJSON(w, r, &m) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.check(m); err != nil {
		refuse(w, http.StatusBadRequest, "%v", err)
		return
	}
	if most := s.Limits.withDefaults().Monitors; len(s.monitors) >= most {
		refuse(w, http.StatusForbidden, "the plan allows %d monitors", most)
		return
	}
	doc := document(m)
	doc["id"], doc["createdAt"], doc["createdBy"] = s.id("mon_"), time.Now().UTC().Format(time.RFC3339), "fake"
	s.monitors = append(s.monitors, doc)
	s.changed()
	answer(w, http.StatusOK, doc)
}

// document makes a checked value the JSON object that is kept.
func document(v any) map[string]any {
	doc := map[string]any{}
	text, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(text, &doc)
	}
	if err != nil {
		panic("axiomtest: " + err.Error()) // it was JSON when it came
	}
	return doc
}

func (s *Server) updateMonitor(w http.ResponseWriter, r *http.Request) {
	var m monitor
	if !readJSON(w, r, &m) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := find(w, r, s.monitors)
	if i < 0 {
		return
	}
	if err := s.check(m); err != nil {
		refuse(w, http.StatusBadRequest, "%v", err)
		return
	}
	doc := document(m)
	for _, name := range []string{"id", "createdAt", "createdBy"} {
		doc[name] = s.monitors[i][name]
	}
	s.monitors[i] = doc
	s.changed()
	answer(w, http.StatusOK, doc)
}

// monitorState is what a monitor would say now.
type monitorState struct {
	Name   string   `json:"name"`
	Fires  bool     `json:"fires"`
	Value  *float64 `json:"value"`
	Text   string   `json:"text"` // the condition
	Error  string   `json:"error,omitempty"`
	Column string   `json:"column,omitempty"`
}

// evaluate runs a threshold monitor's query over its range up to now: the worst of the last column's values counts.
func (s *Server) evaluate(doc map[string]any, now time.Time) monitorState {
	var m monitor
	text, err := json.Marshal(doc)
	if err != nil || json.Unmarshal(text, &m) != nil {
		return monitorState{Error: "not readable"}
	}
	state := monitorState{Name: m.Name, Text: fmt.Sprintf("%s %g, over %d min", m.Operator, m.Threshold, m.RangeMinutes)}
	table, err := s.answerOf(m.APLQuery, now.Add(-time.Duration(m.RangeMinutes)*time.Minute), now, now)
	if err != nil {
		state.Error = err.Error()
		return state
	}
	for i := len(table.Columns) - 1; i >= 0 && state.Value == nil; i-- {
		state.Column = table.Columns[i]
		for _, row := range table.Rows {
			v, ok := row[state.Column].(float64)
			if ok && (state.Value == nil || m.worse(v, *state.Value)) {
				state.Value = &v
			}
		}
	}
	state.Fires = state.Value == nil && m.AlertOnNoData || state.Value != nil && m.holds(*state.Value)
	return state
}

func (m monitor) worse(a, b float64) bool {
	if strings.HasPrefix(m.Operator, "Below") {
		return a < b
	}
	return a > b
}

func (m monitor) holds(v float64) bool {
	switch m.Operator {
	case "Below":
		return v < m.Threshold
	case "BelowOrEqual":
		return v <= m.Threshold
	case "AboveOrEqual":
		return v >= m.Threshold
	}
	return v > m.Threshold
}

func (s *Server) createNotifier(w http.ResponseWriter, r *http.Request) {
	var doc struct {
		Name       string                    `json:"name"`
		Properties map[string]map[string]any `json:"properties"`
		ID         string                    `json:"id,omitempty"`
		// The library sends these, unset.
		DisabledUntil string `json:"disabledUntil,omitempty"`
		CreatedAt     string `json:"createdAt,omitempty"`
		CreatedBy     string `json:"createdBy,omitempty"`
	}
	if !readJSON(w, r, &doc) {
		return
	}
	known := []string{"discord", "discordWebhook", "email", "opsgenie", "pagerduty", "slack", "webhook", "microsoftTeams",
		"customWebhook"}
	for name := range doc.Properties {
		if !slices.Contains(known, name) {
			refuse(w, http.StatusBadRequest, "properties: no kind of notifier %q", name)
			return
		}
	}
	if doc.Name == "" || len(doc.Properties) != 1 {
		refuse(w, http.StatusBadRequest, "a notifier has a name and one of %s, found %s", strings.Join(known, ", "),
			slices.Sorted(maps.Keys(doc.Properties)))
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	doc.ID = s.id("not_")
	s.notifiers = append(s.notifiers, document(doc))
	s.changed()
	answer(w, http.StatusOK, doc)
}
