package axiomtest

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ingestStatus is the answer to an ingest.
type ingestStatus struct {
	Ingested       int             `json:"ingested"`
	Failed         int             `json:"failed"`
	Failures       []ingestFailure `json:"failures"`
	ProcessedBytes int64           `json:"processedBytes"`
	BlocksCreated  int             `json:"blocksCreated"`
	WALLength      int             `json:"walLength"`
}

// ingestFailure names a refused event by its time alone, as Axiom does.
type ingestFailure struct {
	Timestamp string `json:"timestamp"`
	Error     string `json:"error"`
}

// ingest takes events. Those that it refuses are in a successful answer; a request that cannot be read, or has too many
// events, is refused as a whole.
func (s *Server) ingest(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("dataset")
	s.mu.Lock()
	d := s.dataset(name)
	s.mu.Unlock()
	if d == nil {
		refuse(w, http.StatusNotFound, "dataset not found")
		return
	}
	events, err := readEvents(r)
	if err != nil {
		refuse(w, http.StatusBadRequest, "%v", err)
		return
	}
	limits := s.Limits.withDefaults()
	if len(events) > limits.Events {
		refuse(w, http.StatusRequestEntityTooLarge, "%d events in a request, and %d are allowed", len(events), limits.Events)
		return
	}
	status := ingestStatus{Failures: []ingestFailure{}, ProcessedBytes: max(r.ContentLength, 0)}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now().UTC()
	var taken []map[string]any
	for _, e := range events {
		row, err := s.row(d, e, r, now, limits)
		if err != nil {
			status.Failed++
			status.Failures = append(status.Failures, ingestFailure{timestamp(e, row, now), err.Error()})
			continue
		}
		d.take(row, limits)
		taken = append(taken, row)
		status.Ingested++
	}
	status.WALLength = len(d.rows)
	if err := s.keep.events(name, taken); err != nil {
		refuse(w, http.StatusInternalServerError, "%v", err)
		return
	}
	answer(w, http.StatusOK, status)
}

// timestamp is the time under which a refused event is reported.
func timestamp(e Event, row map[string]any, now time.Time) string {
	if at, ok := row["_time"].(time.Time); ok {
		return at.Format(time.RFC3339Nano)
	}
	if text, ok := e["_time"].(string); ok {
		if _, err := time.Parse(time.RFC3339Nano, text); err == nil {
			return text
		}
	}
	return now.Format(time.RFC3339Nano)
}

// row makes an event what is stored, or says why it is refused. On a refusal the row has the event's time, if it has
// one.
func (s *Server) row(d *dataset, e Event, r *http.Request, now time.Time, limits Limits) (map[string]any, error) {
	row := map[string]any{"_sysTime": now}
	field, format := r.URL.Query().Get("timestamp-field"), r.URL.Query().Get("timestamp-format")
	if field == "" {
		field = "_time"
	}
	row["_time"] = now
	if given, there := e[field]; there {
		at, ok := eventTime(given, format)
		if !ok {
			return nil, fmt.Errorf("field %s: %v is no time", field, given)
		}
		row["_time"] = at
	}
	if s.Refuse != nil {
		if why := s.Refuse(e); why != "" {
			return row, fmt.Errorf("%s", why)
		}
	}
	for name, v := range e {
		if name == field {
			continue
		}
		d.flatten(row, renamed(name), v, 1, limits)
	}
	for name := range row {
		if len(name) > limits.NameBytes {
			return row, fmt.Errorf("field name of %d bytes, and %d are allowed: it begins with %.40s",
				len(name), limits.NameBytes, name)
		}
	}
	most := limits.Fields
	if s.switched("field-limit") {
		most = min(most, len(d.fields))
	}
	if new := d.newFields(row); len(d.fields)+len(new) > most && len(new) > 0 {
		return row, fmt.Errorf("adding %d fields to dataset %s (%s) would exceed its limit of %d fields", len(new), d.name,
			strings.Join(new[:min(3, len(new))], ", "), most)
	}
	if s.switches["poison"] {
		if d.poison++; d.poison%10 == 0 {
			s.hits["poison"]++
			return row, fmt.Errorf("this event is refused because the fault poison is on")
		}
	}
	return row, nil
}

// reserved are the names that Axiom keeps for itself; fields that have them are renamed.
var reserved = []string{"_blockInfo", "_cursor", "_rowID", "_source", "_sysTime"}

func renamed(name string) string {
	if slices.Contains(reserved, name) {
		return "_user" + name
	}
	return name
}

// deepest is how deep maps may nest.
const deepest = 100

// flatten puts a value into a row: maps become fields with dots in their names, unless they are declared map fields.
func (d *dataset) flatten(row map[string]any, name string, v any, depth int, limits Limits) {
	switch v := v.(type) {
	case map[string]any:
		if slices.Contains(d.mapFields, name) {
			row[name] = v
			return
		}
		if depth >= deepest {
			row[name] = nil
			return
		}
		for inner, value := range v {
			d.flatten(row, name+"."+inner, value, depth+1, limits)
		}
	case string:
		if len(v) > limits.FieldBytes {
			row[name] = "<invalid string: too long>"
			return
		}
		row[name] = v
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			row[name] = nil
			return
		}
		row[name] = v
	case nil:
	default:
		row[name] = v
	}
}

// eventTime reads a time: a text in a usual form or in a given one, or a number of seconds, milliseconds, microseconds
// or nanoseconds, told apart by their size.
func eventTime(v any, format string) (time.Time, bool) {
	switch v := v.(type) {
	case string:
		layouts := []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999Z07:00",
			"2006-01-02 15:04:05.999999999", time.RFC1123Z, time.RFC1123, time.ANSIC, "2006-01-02"}
		if format != "" {
			layouts = []string{format}
		}
		for _, layout := range layouts {
			if at, err := time.Parse(layout, v); err == nil {
				return at.UTC(), true
			}
		}
		if n, err := strconv.ParseFloat(v, 64); err == nil && format == "" {
			return eventTime(n, "")
		}
	case float64:
		for _, unit := range []float64{1e9, 1e6, 1e3, 1} { // of nanoseconds
			if v > 0 && v*unit < 1e19 && v*unit >= 1e17 {
				return time.Unix(0, int64(v*unit)).UTC(), true
			}
		}
	}
	return time.Time{}, false
}
