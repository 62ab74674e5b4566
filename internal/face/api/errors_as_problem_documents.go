package api

import (
	"context"
	"encoding/json"
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

// writeProblem answers outside of huma.
func writeProblem(w http.ResponseWriter, r *http.Request, p *Problem) {
	c := callOf(r.Context())
	p.RequestID, c.code = c.id, p.code
	for name, values := range p.header {
		w.Header()[name] = values
	}
	body, err := json.Marshal(p)
	if err != nil {
		panic(err) // A Problem is strings and numbers.
	}
	w.Header().Set("Content-Type", p.ContentType(""))
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(p.Status)
	_, _ = w.Write(body) // A client that has gone needs no answer.
}
