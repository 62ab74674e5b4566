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
	JSONObject    json.RawMessage `json:"json_object"`
	StructuralTag json.RawMessage `json:"structural_tag"`
}

type responseFormat struct {
	Type string `json:"type"`
}

// constraint compiles the request's structured outputs; nil is none.
func (e *Engine) constraint(f *completionRequest) (*constraint.Automaton, error) {
	if format := f.ResponseFormat; format != nil && format.Type != "text" && format.Type != "" {
		return nil, badRequest("response_format", "response_format type %q is not supported by this engine.", format.Type)
	}
	s := f.Structured
	if s == nil {
		return nil, nil
	}
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
	default:
		what = "grammar"
		a, err = e.constraints.Grammar(*s.Grammar)
	}
	if err != nil {
		return nil, badRequest("", "Failed to transform %s into a grammar: %v", what, err)
	}
	return a, nil
}

// check refuses none, several and empty constraints, and the kinds that are not simulated.
func (s *structuredOutputs) check() error {
	switch kinds := count(s.Regex != nil, s.Choice != nil, s.Grammar != nil); {
	case len(s.JSON)+len(s.JSONObject)+len(s.StructuralTag) > 0:
		return badRequest("structured_outputs", "this simulated engine supports no JSON and no structural tags.")
	case kinds > 1 && s.Grammar == nil:
		return badRequest("structured_outputs", "You can only use one kind of constraints for structured outputs ('json', "+
			"'regex' or 'choice').")
	case kinds > 1:
		return badRequest("structured_outputs", "You can only use one kind of structured outputs constraint but multiple "+
			"are specified.")
	case kinds == 0:
		return badRequest("", "You must use one kind of structured outputs constraint but none are specified.")
	case s.Choice != nil && len(s.Choice) == 0:
		return badRequest("", "Choice '[]' cannot be an empty list")
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
