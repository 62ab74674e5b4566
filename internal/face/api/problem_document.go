package api

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

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
	codeNotAvailable rollout.RefusalCode = "not-available"
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
	codeNotAvailable: {http.StatusNotImplemented, "Not available here", false},
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

// fail makes err an answer. What is not a refusal is logged with the request id and told in general words: a cause
// may hold addresses and credentials of what stands behind the service.
func (s *Server) fail(ctx context.Context, doing string, err error) error {
	if err == nil {
		return nil
	}
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	var r *rollout.Refusal
	if errors.As(err, &r) {
		if r.Code == rollout.Unavailable {
			s.log(ctx, slog.LevelWarn, doing, err)
		}
		return problem(r.Code, r.Text)
	}
	if ctx.Err() != nil {
		return problem(rollout.Unavailable, doing+": the request was cancelled or the server is stopping; ask again")
	}
	if unavailable(err) {
		s.log(ctx, slog.LevelWarn, doing, err)
		return problem(rollout.Unavailable, doing+": something behind the service does not answer; ask again. The server's "+
			"log names it under this request_id")
	}
	s.log(ctx, slog.LevelError, doing, err)
	return problem(codeInternal, doing+": the server could not do it and it is not your fault; its log has the cause "+
		"under this request_id")
}

func (s *Server) log(ctx context.Context, level slog.Level, doing string, err error) {
	s.deps.Log.LogAttrs(ctx, level, doing, slog.String("request_id", requestID(ctx)), slog.Any("error", err))
}

// unavailable reports whether err is of something that does not answer, which passes, and not one that stays.
func unavailable(err error) bool {
	var network net.Error
	var failure *rollout.Failure
	switch {
	case errors.As(err, &failure):
		return failure.Kind == rollout.Retryable
	case errors.As(err, &network), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, net.ErrClosed), errors.Is(err, context.DeadlineExceeded):
		return true
	}
	return false
}

// specProblem lists the faults of a spec.
func specProblem(err error) *Problem {
	var many interface{ Unwrap() []error }
	if !errors.As(err, &many) {
		return problem(rollout.Invalid, "run spec: "+err.Error())
	}
	faults := many.Unwrap()
	p := problem(rollout.Invalid, "run spec: "+strconv.Itoa(len(faults))+" faults; fix them all and send it again")
	if len(faults) == 1 {
		p.Detail = "run spec: " + faults[0].Error()
	}
	for _, fault := range faults {
		p.Errors = append(p.Errors, ProblemFault{Message: fault.Error()})
	}
	return p
}

// complete is a huma transformer: it makes huma's own errors Problems and stamps every Problem with the request's id.
func complete(ctx huma.Context, _ string, v any) (any, error) {
	if e, ok := v.(*huma.ErrorModel); ok {
		v = fromHuma(e)
	}
	if p, ok := v.(*Problem); ok {
		p.RequestID = requestID(ctx.Context())
		callOf(ctx.Context()).code = p.code
	}
	return v, nil
}

// fromHuma translates huma's error document. Values are left out: they may be megabytes of junk.
func fromHuma(e *huma.ErrorModel) *Problem {
	code := map[int]rollout.RefusalCode{
		http.StatusBadRequest:            codeMalformed,
		http.StatusRequestEntityTooLarge: codeTooLarge,
		http.StatusUnsupportedMediaType:  codeMediaType,
		http.StatusRequestTimeout:        codeTooSlow,
		http.StatusUnprocessableEntity:   rollout.Invalid,
	}[e.Status]
	p := problem(code, e.Detail)
	p.Status = e.Status // It is on the wire already.
	texts := make([]string, 0, len(e.Errors))
	for _, fault := range e.Errors {
		f := ProblemFault{Message: fault.Message, Location: fault.Location}
		p.Errors = append(p.Errors, f)
		texts = append(texts, strings.TrimPrefix(f.Location+": "+f.Message, ": "))
	}
	if len(texts) > 0 {
		p.Detail = strings.Join(texts, "; ")
	}
	return p
}
