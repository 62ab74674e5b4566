package axiomtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/telemetry/axiom/apl"
)

// queryRequest is what axiom-go sends.
type queryRequest struct {
	APL           string         `json:"apl"`
	StartTime     string         `json:"startTime"`
	EndTime       string         `json:"endTime"`
	Cursor        string         `json:"cursor"`
	IncludeCursor bool           `json:"includeCursor"`
	Variables     map[string]any `json:"variables"`
}

// query answers a query in the tabular form.
func (s *Server) query(w http.ResponseWriter, r *http.Request) {
	if format := r.URL.Query().Get("format"); format != "tabular" {
		refuse(w, http.StatusBadRequest, "format %q: the fake answers format=tabular", format)
		return
	}
	var req queryRequest
	if !readJSON(w, r, &req) {
		return
	}
	began := time.Now()
	from, to, note, err := queryRange(req, began)
	if err != nil {
		refuse(w, http.StatusBadRequest, "%v", err)
		return
	}
	if req.Cursor != "" || len(req.Variables) > 0 {
		refuse(w, http.StatusBadRequest, "the fake has neither cursors nor variables")
		return
	}
	q, err := apl.Parse(req.APL)
	if err != nil {
		refuse(w, http.StatusBadRequest, "%v", err)
		return
	}
	s.mu.Lock()
	d := s.dataset(q.Dataset)
	var rows []map[string]any
	var columns []string
	if d != nil {
		rows, columns = d.rows, d.columns()
	}
	s.mu.Unlock()
	if d == nil {
		refuse(w, http.StatusNotFound, "dataset %s not found", q.Dataset)
		return
	}
	table, err := q.Run(rows, columns, from, to, began)
	if err != nil {
		refuse(w, http.StatusBadRequest, "%v", err)
		return
	}
	tables := []any{tabular("0", q.Dataset, table, from, to)}
	status := map[string]any{"elapsedTime": time.Since(began).Microseconds(), "rowsExamined": len(rows),
		"rowsMatched": len(table.Rows), "minCursor": "", "maxCursor": "", "isPartial": false, "numGroups": len(table.Rows)}
	if note != "" {
		status["messages"] = []any{map[string]any{"priority": "warn", "code": "zero_time", "msg": note}}
	}
	answer(w, http.StatusOK, map[string]any{"format": "tabular", "status": status, "tables": tables,
		"datasetNames": []string{q.Dataset}, "fieldsMetaMap": map[string]any{}})
}

// queryRange is from when to when a request asks. The year 1, which axiom-go sends for a time that was not set, is
// taken literally, as nobody knows what Axiom makes of it: the answer is empty, and says why.
func queryRange(req queryRequest, now time.Time) (from, to time.Time, note string, err error) {
	if from, err = moment(req.StartTime, now); err != nil {
		return from, to, "", fmt.Errorf("startTime: %w", err)
	}
	if to, err = moment(req.EndTime, now); err != nil {
		return from, to, "", fmt.Errorf("endTime: %w", err)
	}
	if req.EndTime != "" && to.Year() == 1 {
		to = to.Add(time.Nanosecond)
		return from, to, "startTime and endTime are in the year 1, as the Go library sends them when they are not set: " +
			"set both", nil
	}
	if from.Year() == 1 {
		from = time.Time{}
	}
	return from, to, "", nil
}

// moment reads a time: RFC 3339, or now, or now-6h with or without qr- before it.
func moment(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if rest, relative := strings.CutPrefix(strings.TrimPrefix(text, "qr-"), "now"); relative {
		if rest == "" {
			return now, nil
		}
		back, err := span(strings.TrimPrefix(rest, "-"))
		return now.Add(-back), err
	}
	return time.Parse(time.RFC3339Nano, text)
}

// span reads a duration that may be in days.
func span(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		hours, err := time.ParseDuration(days + "h")
		return 24 * hours, err
	}
	return time.ParseDuration(text)
}

// answerOf runs a query, under the lock.
func (s *Server) answerOf(text string, from, to, now time.Time) (*apl.Table, error) {
	q, err := apl.Parse(text)
	if err != nil {
		return nil, err
	}
	d := s.dataset(q.Dataset)
	if d == nil {
		return nil, fmt.Errorf("dataset %s not found", q.Dataset)
	}
	return q.Run(d.rows, d.columns(), from, to, now)
}

// Query answers a query from what was ingested, for tests; the zero time is no bound.
func (s *Server) Query(text string, from, to time.Time) (*apl.Table, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answerOf(text, from, to, time.Now())
}

// tabular is a table in Axiom's columns.
func tabular(name, source string, t *apl.Table, from, to time.Time) map[string]any {
	fields, columns := []any{}, []any{}
	for _, column := range t.Columns {
		values := make([]any, len(t.Rows))
		typ := "unknown"
		for i, row := range t.Rows {
			values[i] = jsonValue(row[column])
			if row[column] != nil && (typ == "unknown" || typ == "integer") {
				typ = typeName(row[column])
			}
		}
		fields = append(fields, map[string]any{"name": column, "type": typ})
		columns = append(columns, values)
	}
	order, groups := []any{}, []any{}
	for _, o := range t.Order {
		order = append(order, map[string]any{"field": o.Field, "desc": o.Desc})
	}
	for _, g := range t.Groups {
		groups = append(groups, map[string]any{"name": g})
	}
	table := map[string]any{"name": name, "sources": []any{map[string]any{"name": source}}, "fields": fields,
		"order": order, "groups": groups, "columns": columns}
	if !from.IsZero() || !to.IsZero() {
		table["range"] = map[string]any{"field": "_time", "start": from.UTC().Format(time.RFC3339Nano),
			"end": to.UTC().Format(time.RFC3339Nano)}
	}
	if t.Bin > 0 {
		table["buckets"] = map[string]any{"field": "_time", "size": t.Bin.Nanoseconds()}
	}
	return table
}

func jsonValue(v any) any {
	switch v := v.(type) {
	case time.Time:
		return v.UTC().Format(time.RFC3339Nano)
	case time.Duration:
		return v.String()
	}
	if _, err := json.Marshal(v); err != nil {
		return fmt.Sprint(v)
	}
	return v
}
