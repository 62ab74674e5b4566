package enginesim

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
)

// maxBody bounds a request; vLLM's own limits on prompts are far below.
const maxBody = 64 << 20

// decode reads a JSON request as vLLM's validation does. Unknown fields are ignored.
func decode(w http.ResponseWriter, r *http.Request, into any) error {
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	return unmarshal(body, into)
}

func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/json" {
		return nil, &apiError{http.StatusBadRequest, kindValidation, "", "1 validation error:\n  Unsupported Media Type: " +
			"Only 'application/json' is allowed"}
	}
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			return nil, &apiError{http.StatusRequestEntityTooLarge, kindValidation, "", "the request body is too large"}
		}
		return nil, badRequest("", "read body: %v", err)
	}
	return raw, nil
}

func unmarshal(body []byte, into any) error {
	err := json.Unmarshal(body, into)
	var wrong *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	var known *apiError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return known
	case errors.As(err, &wrong):
		return validation("body."+jsonPath(wrong.Field), "type_error", "Input should not be a JSON "+wrong.Value)
	case errors.As(err, &syntax):
		return validation(fmt.Sprintf("body.%d", syntax.Offset), "json_invalid", "JSON decode error")
	default:
		return validation("body", "value_error", err.Error())
	}
}

// jsonPath leaves out the structs that fields are embedded in: Go tells of them, with the only capitals in a path.
func jsonPath(field string) string {
	parts := strings.Split(field, ".")
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return strings.ToLower(part) != part }), ".")
}

// prompts is the prompt field: a text, texts, a list of tokens, or lists of tokens.
type prompts struct {
	texts  []string
	tokens [][]int32
}

// UnmarshalJSON reads any of the four forms.
func (p *prompts) UnmarshalJSON(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		p.texts = []string{text}
		return nil
	}
	if json.Unmarshal(raw, &p.texts) == nil {
		return nil
	}
	p.texts = nil
	var tokens []int32
	if json.Unmarshal(raw, &tokens) == nil {
		p.tokens = [][]int32{tokens}
		return nil
	}
	if json.Unmarshal(raw, &p.tokens) == nil {
		return nil
	}
	return validation("body.prompt", "string_type", "Input should be a valid string, list of strings, list of integers "+
		"or list of lists of integers")
}

func (p *prompts) len() int { return max(len(p.texts), len(p.tokens)) }

// texts is a field that may be one string or several.
type texts []string

// UnmarshalJSON reads either form; null is none.
func (t *texts) UnmarshalJSON(raw []byte) error {
	var one string
	if string(raw) != "null" && json.Unmarshal(raw, &one) == nil {
		*t = texts{one}
		return nil
	}
	return json.Unmarshal(raw, (*[]string)(t))
}
