package apiclient

import "testing"

// A page says what the server said, each fault once; the command line also says what helps there.
func TestRefusalsAsTexts(t *testing.T) {
	t.Parallel()
	fault := Problem{Status: 422, Detail: "the spec is faulty"}
	fault.Errors = append(fault.Errors, struct {
		Message  string `json:"message"`
		Location string `json:"location"`
	}{"65 is more than 64", "buffer.depth"})
	for _, tt := range []struct {
		problem     Problem
		text, error string
	}{
		{fault, "the spec is faulty\n  buffer.depth: 65 is more than 64",
			"the spec is faulty\n  buffer.depth: 65 is more than 64"},
		{Problem{Status: 404, Title: "Not Found"}, "Not Found", "Not Found"},
		{Problem{Status: 401, Detail: "no token"}, "no token",
			"no token\n  set MILLRACE_TOKEN to one of the server's tokens"},
		{Problem{Status: 503, Detail: "no Redis", RequestID: "r1"}, "no Redis", "no Redis (request_id r1)"},
	} {
		if tt.problem.Text() != tt.text || tt.problem.Error() != tt.error {
			t.Errorf("%+v is %q, and as an error %q", tt.problem, tt.problem.Text(), tt.problem.Error())
		}
	}
}
