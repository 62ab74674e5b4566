package api

import (
	"net/http"
	"strconv"

	"github.com/millrace/millrace/internal/rollout"
)

// problemURN leads every problem type; what follows is a rollout.RefusalCode or one of the codes below.
const problemURN = "urn:millrace:problem:"

// Codes of problems that are about HTTP and not about runs.
const (
	codeInternal     rollout.RefusalCode = "internal"
	codeMalformed    rollout.RefusalCode = "malformed"
	codeUnauthorized rollout.RefusalCode = "unauthorized"
	codeForbidden    rollout.RefusalCode = "forbidden"
	codeNoRoute      rollout.RefusalCode = "no-such-path"
	codeNoPolicy     rollout.RefusalCode = "no-such-policy"
	codeNoGame       rollout.RefusalCode = "no-such-game"
	codeMethod       rollout.RefusalCode = "method-not-allowed"
	codeTooLarge     rollout.RefusalCode = "too-large"
	codeTooSlow      rollout.RefusalCode = "too-slow"
	codeMediaType    rollout.RefusalCode = "unsupported-media-type"
	codeOverloaded   rollout.RefusalCode = "overloaded"
)

// kind is the part that all problems with one code share.
type kind struct {
	status    int
	title     string
	retryable bool
}

var kinds = map[rollout.RefusalCode]kind{
	rollout.NoSuchRun:    {http.StatusNotFound, "No such run", false},
	rollout.NoSuchEngine: {http.StatusNotFound, "No such engine", false},
	rollout.NotScaled:    {http.StatusNotFound, "The fleet is not scaled", false},
	rollout.NoSuchStep:   {http.StatusNotFound, "No such step", false},
	rollout.NotReady:     {http.StatusConflict, "No batch is ready", true},
	rollout.Fenced:       {http.StatusConflict, "A newer trainer took over", false},
	rollout.OutOfOrder:   {http.StatusConflict, "Out of order", false},
	rollout.NotClaimed:   {http.StatusConflict, "Step not claimed", false},
	rollout.NotRetained:  {http.StatusConflict, "Batch no longer kept", false},
	rollout.BatchLost:    {http.StatusGone, "Batch lost", false},
	rollout.RunOver:      {http.StatusGone, "The run is over", false},
	rollout.Orphaned:     {http.StatusConflict, "The run's workflow is gone", false},
	rollout.Conflict:     {http.StatusConflict, "Conflict", false},
	rollout.Invalid:      {http.StatusUnprocessableEntity, "Invalid request", false},
	rollout.Unavailable:  {http.StatusServiceUnavailable, "Temporarily unavailable", true},

	rollout.QuotaExceeded: {http.StatusTooManyRequests, "Quota exceeded", false},

	codeInternal:     {http.StatusInternalServerError, "Internal error", false},
	codeMalformed:    {http.StatusBadRequest, "Malformed request", false},
	codeUnauthorized: {http.StatusUnauthorized, "Token needed", false},
	codeForbidden:    {http.StatusForbidden, "Forbidden", false},
	codeNoRoute:      {http.StatusNotFound, "No such path", false},
	codeNoPolicy:     {http.StatusNotFound, "No such policy version", false},
	codeNoGame:       {http.StatusNotFound, "No such game", false},
	codeMethod:       {http.StatusMethodNotAllowed, "Method not allowed", false},
	codeTooLarge:     {http.StatusRequestEntityTooLarge, "Request body too large", false},
	codeTooSlow:      {http.StatusRequestTimeout, "Request body too slow", true},
	codeMediaType:    {http.StatusUnsupportedMediaType, "Unsupported media type", false},
	codeOverloaded:   {http.StatusTooManyRequests, "Too much at a time", true},
}

// retryAfterSec is how long a client should wait before it asks again after a retryable problem.
const retryAfterSec = 1

// Problem is an RFC 9457 problem document.
type Problem struct {
	Type      string         `json:"type" format:"uri" doc:"urn:millrace:problem:CODE; stable, made to be compared"`
	Title     string         `json:"title" doc:"The same for every problem of this type"`
	Status    int            `json:"status"`
	Detail    string         `json:"detail" doc:"What happened, why, and what to do next"`
	RequestID string         `json:"request_id" doc:"Names this request in the server's log"`
	Retryable bool           `json:"retryable" doc:"Whether the same request may succeed later"`
	Errors    []ProblemFault `json:"errors,omitempty" doc:"Every fault found, when there are several or when each has a place"`

	code   rollout.RefusalCode
	header http.Header
}

// ProblemFault is one of several things wrong with a request.
type ProblemFault struct {
	Message  string `json:"message"`
	Location string `json:"location,omitempty" doc:"Such as body.phases.train or spec:3:5"`
}

// problem makes a Problem of a known code.
func problem(code rollout.RefusalCode, detail string) *Problem {
	k, known := kinds[code]
	if !known {
		code, k = codeInternal, kinds[codeInternal]
	}
	p := &Problem{Type: problemURN + string(code), Title: k.title, Status: k.status, Detail: detail,
		Retryable: k.retryable, code: code}
	if k.retryable {
		p.header = http.Header{"Retry-After": {strconv.Itoa(retryAfterSec)}}
	}
	return p
}

// Error is the detail.
func (p *Problem) Error() string { return p.Detail }

// GetStatus makes a Problem huma's idea of an error.
func (p *Problem) GetStatus() int { return p.Status }

// GetHeaders adds Retry-After where that helps.
func (p *Problem) GetHeaders() http.Header { return p.header }

// ContentType marks the document as a problem.
func (p *Problem) ContentType(string) string { return "application/problem+json" }
