package telemetry

import (
	"maps"
	"slices"
	"strings"
)

// Audit reports a change that somebody asked for over the API, also one that was refused.
type Audit struct {
	Who    string `json:"who"` // the token's name
	Role   string `json:"role"`
	From   string `json:"from"`             // the client's address
	What   string `json:"what"`             // operation, such as change-run
	Target string `json:"target,omitempty"` // such as run demo, engine gpu-1
	// Before and After are what the change made different.
	Before    map[string]string `json:"before,omitempty"`
	After     map[string]string `json:"after,omitempty"`
	Status    int               `json:"status"`         // of the answer: 400 and above is a refusal
	Code      string            `json:"code,omitempty"` // of the refusal
	RequestID string            `json:"request_id"`
}

var auditKind = fact[Audit]("audit")

func (Audit) kind() *kind { return auditKind }

func (b Audit) row(r Row) {
	r["who"], r["role"], r["from"], r["what"] = b.Who, b.Role, b.From, b.What
	r["status"], r["request_id"] = b.Status, b.RequestID
	r.text("target", b.Target)
	r.text("code", b.Code)
	r.text("before", settings(b.Before))
	r.text("after", settings(b.After))
}

// settings is names and values as one text, in the order of their names.
func settings(values map[string]string) string {
	parts := make([]string, 0, len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		parts = append(parts, name+"="+values[name])
	}
	return strings.Join(parts, ", ")
}
