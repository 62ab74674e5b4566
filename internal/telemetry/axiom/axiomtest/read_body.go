package axiomtest

import (
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// decodeJSON reports whether text is JSON that fits.
func decodeJSON(text []byte, v any) bool { return json.Unmarshal(text, v) == nil }

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

// readEvents decodes a body of NDJSON, of a JSON list, or of CSV, compressed or not, and adds the labels.
func readEvents(r *http.Request) ([]Event, error) {
	body, err := uncompressed(r)
	if err != nil {
		return nil, err
	}
	typ, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return nil, fmt.Errorf("content type %q: %w", r.Header.Get("Content-Type"), err)
	}
	var events []Event
	switch typ {
	case "application/json":
		err = json.Unmarshal(body, &events)
	case "application/x-ndjson":
		events, err = readLines(body)
	case "text/csv":
		events, err = readCSV(r, body)
	default:
		err = fmt.Errorf("content type %q: want application/json, application/x-ndjson or text/csv", typ)
	}
	if err != nil {
		return nil, err
	}
	return events, label(r, events)
}

func readLines(body []byte) ([]Event, error) {
	var events []Event
	number := 0
	for text := range bytes.Lines(body) {
		number++
		if text = bytes.TrimSpace(text); len(text) == 0 {
			continue
		}
		var e Event
		if err := json.Unmarshal(text, &e); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if e == nil {
			return nil, fmt.Errorf("line %d: an event is an object", number)
		}
		events = append(events, e)
	}
	return events, nil
}

// readCSV takes the names of the columns from the first line, or from the header that axiom-go sends.
func readCSV(r *http.Request, body []byte) ([]Event, error) {
	reader := csv.NewReader(bytes.NewReader(body))
	reader.TrimLeadingSpace = true
	if d := []rune(r.URL.Query().Get("csv-delimiter")); len(d) == 1 {
		reader.Comma = d[0]
	}
	lines, err := reader.ReadAll()
	if err != nil {
		return nil, err
	}
	var names []string
	if given := r.Header.Get("X-Axiom-CSV-Fields"); given != "" {
		names = strings.Split(given, ",")
	} else if len(lines) > 0 {
		names, lines = lines[0], lines[1:]
	}
	var events []Event
	for i, line := range lines {
		if len(line) != len(names) {
			return nil, fmt.Errorf("line %d has %d values for %d fields", i+1, len(line), len(names))
		}
		e := Event{}
		for j, name := range names {
			e[strings.TrimSpace(name)] = csvValue(line[j])
		}
		events = append(events, e)
	}
	return events, nil
}

// csvValue is a number, true, false, or a text.
func csvValue(text string) any {
	var v any
	if json.Unmarshal([]byte(text), &v) == nil {
		switch v.(type) {
		case float64, bool:
			return v
		}
	}
	return text
}

// label adds to every event what the header says.
func label(r *http.Request, events []Event) error {
	given := r.Header.Get("X-Axiom-Event-Labels")
	if given == "" {
		return nil
	}
	var labels map[string]any
	if err := json.Unmarshal([]byte(given), &labels); err != nil {
		return fmt.Errorf("header X-Axiom-Event-Labels: %w", err)
	}
	for _, e := range events {
		for name, v := range labels {
			e[name] = v
		}
	}
	return nil
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
