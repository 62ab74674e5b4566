// Package oteltest is a collector of OTLP over HTTP that keeps what it is sent, for tests. Start reading at Collector.
package oteltest

import (
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"sync"

	colmetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/protobuf/proto"
)

// Span is a span as it arrived.
type Span struct {
	Service, Name          string
	Trace, ID, Parent      string
	StartNano, EndNano     uint64
	Attributes             map[string]string
	Schema, Status, Detail string
}

// Collector answers /v1/traces and /v1/metrics. The zero value is ready.
type Collector struct {
	mu      sync.Mutex
	spans   []Span
	metrics map[string]bool
}

func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	err := c.take(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func (c *Collector) take(r *http.Request) error {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(body)
		if err != nil {
			return err
		}
		body = unpacked
	}
	b, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch r.URL.Path {
	case "/v1/traces":
		var req coltrace.ExportTraceServiceRequest
		if err := proto.Unmarshal(b, &req); err != nil {
			return err
		}
		c.takeSpans(&req)
	case "/v1/metrics":
		var req colmetrics.ExportMetricsServiceRequest
		if err := proto.Unmarshal(b, &req); err != nil {
			return err
		}
		c.takeMetrics(&req)
	default:
		return fmt.Errorf("no path %s", r.URL.Path)
	}
	return nil
}

func (c *Collector) takeSpans(req *coltrace.ExportTraceServiceRequest) {
	for _, of := range req.GetResourceSpans() {
		service := attributes(of.GetResource().GetAttributes())["service.name"]
		for _, scope := range of.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				c.spans = append(c.spans, Span{
					Service: service, Name: s.GetName(), Trace: hex.EncodeToString(s.GetTraceId()),
					ID: hex.EncodeToString(s.GetSpanId()), Parent: hex.EncodeToString(s.GetParentSpanId()),
					StartNano: s.GetStartTimeUnixNano(), EndNano: s.GetEndTimeUnixNano(),
					Attributes: attributes(s.GetAttributes()), Schema: scope.GetSchemaUrl(),
					Status: s.GetStatus().GetCode().String(), Detail: s.GetStatus().GetMessage(),
				})
			}
		}
	}
}

func (c *Collector) takeMetrics(req *colmetrics.ExportMetricsServiceRequest) {
	if c.metrics == nil {
		c.metrics = map[string]bool{}
	}
	for _, of := range req.GetResourceMetrics() {
		service := attributes(of.GetResource().GetAttributes())["service.name"]
		for _, scope := range of.GetScopeMetrics() {
			for _, m := range scope.GetMetrics() {
				c.metrics[service+" "+m.GetName()] = true
			}
		}
	}
}

func attributes(list []*common.KeyValue) map[string]string {
	out := make(map[string]string, len(list))
	for _, a := range list {
		switch v := a.GetValue().GetValue().(type) {
		case *common.AnyValue_StringValue:
			out[a.GetKey()] = v.StringValue
		case *common.AnyValue_IntValue:
			out[a.GetKey()] = fmt.Sprint(v.IntValue)
		case *common.AnyValue_DoubleValue:
			out[a.GetKey()] = fmt.Sprint(v.DoubleValue)
		default:
			out[a.GetKey()] = a.GetValue().String()
		}
	}
	return out
}

// Spans is what has arrived.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Span(nil), c.spans...)
}

// HasMetric reports whether a process has exported a metric.
func (c *Collector) HasMetric(service, name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.metrics[service+" "+name]
}

// Path is the names from a span up to the root of its trace, the span's own first. A parent that did not arrive is "?".
func (c *Collector) Path(s Span) []string {
	byID := map[string]Span{}
	for _, other := range c.Spans() {
		byID[other.Trace+other.ID] = other
	}
	names := []string{s.Name}
	for s.Parent != "" {
		parent, there := byID[s.Trace+s.Parent]
		if !there {
			return append(names, "?")
		}
		s = parent
		names = append(names, s.Name)
	}
	return names
}
