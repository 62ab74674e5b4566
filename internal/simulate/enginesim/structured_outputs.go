package enginesim

import (
	"encoding/json"

	"github.com/millrace/millrace/internal/simulate/enginesim/constraint"
)

// structuredOutputs constrains the text; one of the kinds may be given.
type structuredOutputs struct {
	Choice        []string        `json:"choice"`
	Regex         *string         `json:"regex"`
	Grammar       *string         `json:"grammar"`
	JSON          json.RawMessage `json:"json"`
	JSONObject    *bool           `json:"json_object"`
	StructuralTag json.RawMessage `json:"structural_tag"`
}

type responseFormat struct {
	Type       string `json:"type"`
	JSONSchema *struct {
		Schema json.RawMessage `json:"schema"`
	} `json:"json_schema"`
}

// constraint compiles the request's structured outputs; nil is none.
func (e *Engine) constraint(f *samplingFields) (*constraint.Automaton, error) {
	s := f.Structured
	if format := f.ResponseFormat; format != nil {
		switch format.Type {
		case "text", "":
		case "json_schema":
			if format.JSONSchema == nil {
				return nil, badRequest("response_format", "When response_format type is 'json_schema', the 'json_schema' field "+
					"must be provided.")
			}
			s = &structuredOutputs{JSON: format.JSONSchema.Schema}
		case "json_object":
			object := true
			s = &structuredOutputs{JSONObject: &object}
		default:
			return nil, badRequest("response_format", "response_format type %q is not supported by this engine.", format.Type)
		}
	}
	if s == nil {
		return nil, nil
	}
	return e.structured(s)
}

// structured compiles the one kind of constraint that may be given.
func (e *Engine) structured(s *structuredOutputs) (*constraint.Automaton, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	var a *constraint.Automaton
	var what string // in the error, as vLLM calls it
	var err error
	switch {
	case s.Choice != nil:
		what = "choices"
		a, err = e.constraints.Choice(s.Choice)
	case s.Regex != nil:
		what = "regex"
		a, err = e.constraints.Regex(*s.Regex)
	case s.Grammar != nil:
		what = "grammar"
		a, err = e.constraints.Grammar(*s.Grammar)
	case s.hasJSON():
		what = "json schema"
		a, err = e.constraints.JSONSchema(s.JSON)
	default:
		what = "json object"
		a, err = e.constraints.JSONObject()
	}
	if err != nil {
		return nil, badRequest("", "Failed to transform %s into a grammar: %v", what, err)
	}
	return a, nil
}

func (s *structuredOutputs) hasJSON() bool { return len(s.JSON) > 0 && string(s.JSON) != "null" }

// check refuses none, several and empty constraints, and the kind that is not simulated.
func (s *structuredOutputs) check() error {
	object := s.JSONObject != nil && *s.JSONObject
	switch few, all := count(s.hasJSON(), s.Regex != nil, s.Choice != nil),
		count(s.Grammar != nil, object, len(s.StructuralTag) > 0); {
	case few > 1:
		return badRequest("structured_outputs", "You can only use one kind of constraints for structured outputs ('json', "+
			"'regex' or 'choice').")
	case few+all > 1:
		return badRequest("structured_outputs", "You can only use one kind of structured outputs constraint but multiple "+
			"are specified.")
	case few+all == 0:
		return badRequest("", "You must use one kind of structured outputs constraint but none are specified.")
	case s.Choice != nil && len(s.Choice) == 0:
		return badRequest("", "Choice '[]' cannot be an empty list")
	case len(s.StructuralTag) > 0:
		return badRequest("structured_outputs", "this simulated engine does not support structural tags.")
	}
	return nil
}

func count(given ...bool) int {
	n := 0
	for _, is := range given {
		if is {
			n++
		}
	}
	return n
}
