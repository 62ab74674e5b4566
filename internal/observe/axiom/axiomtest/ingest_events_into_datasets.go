package axiomtest

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
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
	for _, e := range events {
		row, err := s.row(d, e, now, limits)
		if err != nil {
			status.Failed++
			status.Failures = append(status.Failures, ingestFailure{timestamp(e, row, now), err.Error()})
			continue
		}
		d.take(row, limits)
		status.Ingested++
	}
	status.WALLength = len(d.rows)
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
func (s *Server) row(d *dataset, e Event, now time.Time, limits Limits) (map[string]any, error) {
	row := map[string]any{"_sysTime": now, "_time": now}
	if given, there := e["_time"]; there {
		text, _ := given.(string)
		at, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return nil, fmt.Errorf("field _time: %v is no time", given)
		}
		row["_time"] = at.UTC()
	}
	if s.Refuse != nil {
		if why := s.Refuse(e); why != "" {
			return row, fmt.Errorf("%s", why)
		}
	}
	for name, v := range e {
		if name != "_time" {
			d.flatten(row, renamed(name), v, limits)
		}
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

// flatten puts a value into a row: maps become fields with dots in their names, unless they are declared map fields.
func (d *dataset) flatten(row map[string]any, name string, v any, limits Limits) {
	switch v := v.(type) {
	case nil:
	case map[string]any:
		if slices.Contains(d.mapFields, name) {
			row[name] = v
			return
		}
		for inner, value := range v {
			d.flatten(row, name+"."+inner, value, limits)
		}
	case string:
		if len(v) > limits.FieldBytes {
			v = "<invalid string: too long>"
		}
		row[name] = v
	default:
		row[name] = v
	}
}

// peek reads a request's events, and the body for those who read it again.
func peek(r *http.Request) (events []Event, again io.ReadCloser, err error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, io.NopCloser(bytes.NewReader(nil)), err
	}
	copied := r.Clone(r.Context())
	copied.Body = io.NopCloser(bytes.NewReader(body))
	events, err = readEvents(copied)
	return events, io.NopCloser(bytes.NewReader(body)), err
}

// readEvents decodes a body of NDJSON or of a JSON list, compressed or not.
func readEvents(r *http.Request) ([]Event, error) {
	body, err := uncompressed(r)
	if err != nil {
		return nil, err
	}
	var events []Event
	switch typ := r.Header.Get("Content-Type"); typ {
	case "application/json":
		err := json.Unmarshal(body, &events)
		return events, err
	case "application/x-ndjson":
		for lines := json.NewDecoder(bytes.NewReader(body)); lines.More(); {
			var e Event
			if err := lines.Decode(&e); err != nil {
				return nil, fmt.Errorf("event %d: %w", len(events), err)
			}
			events = append(events, e)
		}
		return events, nil
	default:
		return nil, fmt.Errorf("content type %q: want application/json or application/x-ndjson", typ)
	}
}

func uncompressed(r *http.Request) ([]byte, error) {
	switch coding := r.Header.Get("Content-Encoding"); coding {
	case "", "identity":
		return io.ReadAll(r.Body)
	case "gzip":
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			return nil, err
		}
		return io.ReadAll(z)
	case "zstd":
		z, err := zstd.NewReader(r.Body, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		defer z.Close()
		return io.ReadAll(z)
	default:
		return nil, fmt.Errorf("content encoding %q: want gzip or zstd", coding)
	}
}
