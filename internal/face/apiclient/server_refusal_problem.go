package apiclient

import (
	"cmp"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"strings"

	"github.com/millrace/millrace/internal/rollout"
)

// Problem is a refusal of the server (RFC 9457).
type Problem struct {
	Type      string `json:"type"`
	Title     string `json:"title"`
	Status    int    `json:"status"`
	Detail    string `json:"detail"`
	Retryable bool   `json:"retryable"`
	RequestID string `json:"request_id"`
	Errors    []struct {
		Message  string `json:"message"`
		Location string `json:"location"`
	} `json:"errors"`
}

// readProblem reads a refusal. An answer that is not from our server has neither type nor detail.
func readProblem(status int, header http.Header, body []byte) *Problem {
	p := &Problem{}
	kind, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	if kind != "application/problem+json" || json.Unmarshal(body, p) != nil {
		p = &Problem{}
	}
	p.Status = status
	return p
}

// explained says where a refusal came from that does not say why.
func (c *Client) explained(p *Problem, status string) *Problem {
	if p.Detail == "" && p.Title == "" {
		p.Detail = fmt.Sprintf("%s answers %s without saying why; is it a millrace server?", c.server, status)
	}
	return p
}

// Code is why the server refused; empty when it did not say.
func (p *Problem) Code() rollout.RefusalCode {
	code, _ := strings.CutPrefix(p.Type, "urn:millrace:problem:")
	return rollout.RefusalCode(code)
}

// Text is what the server said, each fault on a line of its own.
func (p *Problem) Text() string {
	text := cmp.Or(p.Detail, p.Title)
	for _, e := range p.Errors {
		fault := strings.TrimPrefix(e.Location+": "+e.Message, ": ")
		if !strings.Contains(text, fault) {
			text += "\n  " + fault
		}
	}
	return text
}

// Error is Text, with what helps whoever typed the command.
func (p *Problem) Error() string {
	switch {
	case p.Status == http.StatusUnauthorized:
		return p.Text() + "\n  set MILLRACE_TOKEN to one of the server's tokens"
	case p.Status >= http.StatusInternalServerError && p.RequestID != "":
		return p.Text() + " (request_id " + p.RequestID + ")"
	}
	return p.Text()
}
