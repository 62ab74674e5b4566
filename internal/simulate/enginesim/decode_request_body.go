package enginesim

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
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
		field := strings.TrimPrefix(strings.TrimPrefix(wrong.Field, "completionRequest."), "chat.") // embedded in Go only
		return validation("body."+field, "type_error", "Input should not be a JSON "+wrong.Value)
	case errors.As(err, &syntax):
		return validation(fmt.Sprintf("body.%d", syntax.Offset), "json_invalid", "JSON decode error")
	default:
		return validation("body", "value_error", err.Error())
	}
}

// prompt is a text, or a list of tokens; it may be a list of one such.
type prompt struct {
	text   string
	tokens []int32
}

// UnmarshalJSON reads any form.
func (p *prompt) UnmarshalJSON(raw []byte) error {
	if json.Unmarshal(raw, &p.text) == nil || json.Unmarshal(raw, &p.tokens) == nil {
		return nil
	}
	p.tokens = nil // a part may have been read
	var one []json.RawMessage
	if json.Unmarshal(raw, &one) == nil && len(one) == 1 && one[0][0] != '{' {
		return p.UnmarshalJSON(one[0])
	}
	return validation("body.prompt", "string_type", "Input should be a valid string or list of integers; this simulated "+
		"engine takes one prompt at a time")
}

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
