package axiomtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/telemetry/axiom/apl"
)

// dashboard is one with what Axiom adds to its document.
type dashboard struct {
	ID        string         `json:"id"`
	UID       string         `json:"uid"`
	Version   int64          `json:"version"`
	CreatedAt string         `json:"createdAt"`
	CreatedBy string         `json:"createdBy"`
	UpdatedAt string         `json:"updatedAt"`
	UpdatedBy string         `json:"updatedBy"`
	Dashboard map[string]any `json:"dashboard"`
}

// dashboardRequest is the body of both POST and PUT.
type dashboardRequest struct {
	Dashboard json.RawMessage `json:"dashboard"`
	Message   string          `json:"message"`
	Overwrite bool            `json:"overwrite"`
	UID       string          `json:"uid"`
	Version   *int64          `json:"version"`
}

// dashboardDocument is a dashboard, with no key that Axiom does not know.
type dashboardDocument struct {
	Name             string       `json:"name"`
	Owner            *string      `json:"owner"`
	Description      string       `json:"description"`
	Charts           []chartBody  `json:"charts"`
	Layout           []layoutCell `json:"layout"`
	RefreshTime      int          `json:"refreshTime"`
	SchemaVersion    int          `json:"schemaVersion"`
	TimeWindowStart  string       `json:"timeWindowStart"`
	TimeWindowEnd    string       `json:"timeWindowEnd"`
	Against          string       `json:"against"`
	AgainstTimestamp string       `json:"againstTimestamp"`
	UID              string       `json:"uid"`
}

type chartBody struct {
	ID    string     `json:"id"`
	Name  string     `json:"name"`
	Type  string     `json:"type"`
	Query chartQuery `json:"query"`
}

type chartQuery struct {
	APL          string            `json:"apl"`
	QueryOptions map[string]string `json:"queryOptions"`
}

type layoutCell struct {
	I      string   `json:"i"`
	X      *int     `json:"x"`
	Y      *int     `json:"y"`
	W      int      `json:"w"`
	H      int      `json:"h"`
	MinW   *float64 `json:"minW"`
	MinH   *float64 `json:"minH"`
	MaxW   *float64 `json:"maxW"`
	MaxH   *float64 `json:"maxH"`
	Static bool     `json:"static"`
	Moved  bool     `json:"moved"`
}

var chartTypes = []string{"TimeSeries", "Heatmap", "LogStream", "Pie", "Scatter", "Table", "TopK", "Statistic", "Note"}

// check reports what Axiom would refuse.
func (s *Server) checkDashboard(text json.RawMessage) (map[string]any, error) {
	var doc dashboardDocument
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&doc); err != nil {
		return nil, fmt.Errorf("dashboard: %w", err)
	}
	var faults []string
	wrong := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if doc.Name == "" {
		wrong("name is required")
	}
	if doc.Owner == nil || *doc.Owner != "" && *doc.Owner != "X-AXIOM-EVERYONE" {
		wrong("owner: an API token makes dashboards of the organization alone: want the empty text")
	}
	if !slices.Contains([]int{15, 60, 300}, doc.RefreshTime) {
		wrong("refreshTime %d: want 15, 60 or 300", doc.RefreshTime)
	}
	if doc.SchemaVersion != 2 {
		wrong("schemaVersion %d: want 2", doc.SchemaVersion)
	}
	for name, text := range map[string]string{"timeWindowStart": doc.TimeWindowStart, "timeWindowEnd": doc.TimeWindowEnd} {
		if _, err := time.Parse(time.RFC3339, text); err != nil && !strings.HasPrefix(text, "qr-now") {
			wrong("%s %q: want a time, or qr-now-6h", name, text)
		}
	}
	charts := map[string]bool{}
	for _, c := range doc.Charts {
		s.checkChart(c, wrong)
		if charts[c.ID] {
			wrong("chart %s is there twice", c.ID)
		}
		charts[c.ID] = true
	}
	placed := map[string]bool{}
	for _, cell := range doc.Layout {
		switch {
		case !charts[cell.I]:
			wrong("layout: no chart has the id %q", cell.I)
		case cell.X == nil || *cell.X < 0 || cell.W < 1 || *cell.X+cell.W > 12 || cell.H < 1:
			wrong("layout of %s: want x and w within 12 columns, and h above 0", cell.I)
		}
		placed[cell.I] = true
	}
	for _, c := range doc.Charts {
		if !placed[c.ID] {
			wrong("layout: chart %s has no place", c.ID)
		}
	}
	if len(faults) > 0 {
		return nil, fmt.Errorf("dashboard: %s", strings.Join(faults, "; "))
	}
	kept := map[string]any{}
	if err := json.Unmarshal(text, &kept); err != nil {
		return nil, err
	}
	kept["owner"] = "X-AXIOM-EVERYONE"
	return kept, nil
}

func (s *Server) checkChart(c chartBody, wrong func(string, ...any)) {
	if c.ID == "" || c.Name == "" {
		wrong("a chart has an id and a name")
	}
	if !slices.Contains(chartTypes, c.Type) {
		wrong("chart %s: type %q: want one of %s", c.ID, c.Type, strings.Join(chartTypes, ", "))
	}
	if c.Type == "Note" {
		return
	}
	q, err := apl.Parse(c.Query.APL)
	switch {
	case err != nil:
		wrong("chart %s: %v", c.ID, err)
	case s.dataset(q.Dataset) == nil:
		wrong("chart %s: dataset %s not found", c.ID, q.Dataset)
	case c.Type == "TimeSeries" && !q.BinnedByTime():
		wrong("chart %s: a TimeSeries needs summarize ... by bin_auto(_time)", c.ID)
	}
}

// refuseDashboard answers in the form that the dashboards' API has for errors.
func refuseDashboard(w http.ResponseWriter, status int, code string, version int64, err error) {
	body := map[string]any{"code": code, "message": err.Error()}
	if version > 0 {
		body["currentVersion"] = version
	}
	answer(w, status, body)
}

func (s *Server) listDashboards(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer(w, http.StatusOK, append([]*dashboard{}, s.dashboards...))
}

func (s *Server) createDashboard(w http.ResponseWriter, r *http.Request) {
	var req dashboardRequest
	if !readJSON(w, r, &req) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	doc, err := s.checkDashboard(req.Dashboard)
	if err != nil {
		refuseDashboard(w, http.StatusBadRequest, "invalid_dashboard", 0, err)
		return
	}
	if i := s.dashboardOf(req.UID); i >= 0 {
		if !req.Overwrite {
			refuseDashboard(w, http.StatusConflict, "dashboard_exists", s.dashboards[i].Version,
				fmt.Errorf("a dashboard with the uid %s exists", req.UID))
			return
		}
		s.write(w, s.dashboards[i], doc, "updated", http.StatusOK)
		return
	}
	d := &dashboard{ID: s.id(""), UID: req.UID, CreatedAt: time.Now().UTC().Format(time.RFC3339), CreatedBy: "fake"}
	if d.UID == "" {
		d.UID = s.id("dash")
	}
	s.dashboards = append(s.dashboards, d)
	s.write(w, d, doc, "created", http.StatusOK)
}

// write makes doc the dashboard's next version, and answers with it.
func (s *Server) write(w http.ResponseWriter, d *dashboard, doc map[string]any, status string, code int) {
	d.Version++
	d.Dashboard, d.UpdatedAt, d.UpdatedBy = doc, time.Now().UTC().Format(time.RFC3339), "fake"
	s.changed()
	answer(w, code, map[string]any{"status": status, "overwritten": status == "updated", "dashboard": d})
}

func (s *Server) dashboardOf(uid string) int {
	return slices.IndexFunc(s.dashboards, func(d *dashboard) bool { return uid != "" && d.UID == uid })
}

// withDashboard serves a call about one dashboard, under the lock.
func (s *Server) withDashboard(w http.ResponseWriter, r *http.Request, serve func(i int)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.dashboardOf(r.PathValue("uid"))
	if i < 0 {
		refuseDashboard(w, http.StatusNotFound, "not_found", 0, fmt.Errorf("no dashboard %s", r.PathValue("uid")))
		return
	}
	serve(i)
}

func (s *Server) getDashboard(w http.ResponseWriter, r *http.Request) {
	s.withDashboard(w, r, func(i int) { answer(w, http.StatusOK, s.dashboards[i]) })
}

func (s *Server) updateDashboard(w http.ResponseWriter, r *http.Request) {
	var req dashboardRequest
	if !readJSON(w, r, &req) {
		return
	}
	s.withDashboard(w, r, func(i int) {
		d := s.dashboards[i]
		if !req.Overwrite && (req.Version == nil || *req.Version != d.Version) {
			refuseDashboard(w, http.StatusPreconditionFailed, "version_mismatch", d.Version,
				fmt.Errorf("the dashboard is at version %d", d.Version))
			return
		}
		doc, err := s.checkDashboard(req.Dashboard)
		if err != nil {
			refuseDashboard(w, http.StatusBadRequest, "invalid_dashboard", 0, err)
			return
		}
		s.write(w, d, doc, "updated", http.StatusOK)
	})
}

func (s *Server) deleteDashboard(w http.ResponseWriter, r *http.Request) {
	s.withDashboard(w, r, func(i int) {
		s.dashboards = slices.Delete(s.dashboards, i, i+1)
		s.changed()
		w.WriteHeader(http.StatusNoContent)
	})
}
