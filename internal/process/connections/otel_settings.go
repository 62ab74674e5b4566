package connections

import (
	"strconv"
	"strings"
)

// OTel is where traces and metrics go by OTLP over HTTP. Nothing is exported without an endpoint, here or in the
// standard variables.
type OTel struct {
	Endpoint   string  `json:"endpoint"`
	TraceRatio float64 `json:"trace_ratio"`

	disabled        bool // OTEL_SDK_DISABLED
	traces, metrics bool // the environment names an endpoint for these alone
}

// Traces reports whether traces are exported, and to where; empty: the exporter reads its own variable.
func (o OTel) Traces() (on bool, endpoint string) {
	if o.traces {
		return !o.disabled && o.TraceRatio > 0, ""
	}
	return !o.disabled && o.TraceRatio > 0 && o.Endpoint != "", o.Endpoint
}

// Metrics reports the same of metrics.
func (o OTel) Metrics() (on bool, endpoint string) {
	if o.metrics {
		return !o.disabled, ""
	}
	return !o.disabled && o.Endpoint != "", o.Endpoint
}

// Environment applies the standard variables that choose what is exported; the exporters read the others.
func (o *OTel) Environment(getenv func(string) string) {
	o.disabled = strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true")
	if v := getenv("OTEL_EXPORTER_OTLP_ENDPOINT"); v != "" {
		o.Endpoint = v
	}
	o.traces = getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
	o.metrics = getenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT") != ""
	if getenv("OTEL_TRACES_EXPORTER") == "none" {
		o.TraceRatio = 0
	}
	if ratio, err := strconv.ParseFloat(getenv("OTEL_TRACES_SAMPLER_ARG"), 64); err == nil && ratio >= 0 && ratio <= 1 {
		o.TraceRatio = ratio
	}
}
