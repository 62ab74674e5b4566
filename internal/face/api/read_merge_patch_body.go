package api

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace/millrace/internal/kit/settings"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/spec"
)

// patched registers a call whose body is a JSON merge patch. It is read as it is, in the words in which its owner reads
// the whole document.
func patched[I, O any](s *Server, id string, schema map[string]any, do func(context.Context, *I) (O, error)) {
	change := s.operation(id)
	change.SkipValidateBody = true
	change.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
		"application/json": {Schema: &huma.Schema{Type: huma.TypeObject, Extensions: schema}}}}
	answeredAs(s, change, do)
	onlyDocuments(change)
}

// onlyDocuments removes the media type "any bytes", which the router adds to an operation with a raw body.
func onlyDocuments(op huma.Operation) { delete(op.RequestBody.Content, "application/octet-stream") }

// readChange reads the body of a change, which must be valid and not empty.
func readChange(body []byte) (spec.Change, error) {
	c, err := readDocument[spec.Change](body)
	if err != nil {
		return c, err
	}
	return c, changeProblem(c.Validate())
}

// readDocument reads a body that its type reads strictly, and says what is wrong with it.
func readDocument[T any](body []byte) (T, error) {
	var document T
	err := json.Unmarshal(body, &document)
	var fault *settings.Fault
	switch {
	case errors.As(err, &fault):
		return document, changeProblem(settings.Faults{fault})
	case err != nil:
		return document, problem(codeMalformed, "the body is no JSON: "+err.Error())
	}
	return document, nil
}

// changeProblem names every fault by its key; nil when there is none.
func changeProblem(faults settings.Faults) error {
	if len(faults) == 0 {
		return nil
	}
	p := problem(rollout.Invalid, faults.Error())
	for _, f := range faults {
		p.Errors = append(p.Errors, ProblemFault{Message: f.Text, Location: strings.TrimSuffix("body."+f.Path, ".")})
	}
	return p
}
