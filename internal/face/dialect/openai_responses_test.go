package dialect

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/game/external"
)

var responses = func() *Dialect {
	for _, d := range All {
		if d.Path == "/v1/responses" {
			return d
		}
	}
	return nil
}()

// TestResponsesAreRead: what chat template's messages the items of a call become, or why they are none.
func TestResponsesAreRead(t *testing.T) {
	t.Parallel()
	const call = `{"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{\"x\":1}"}`
	const asChat = `{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}}`
	for _, tt := range []struct{ body, want string }{
		{`"input": "Hi", "instructions": "Be brief."`,
			`[{"role":"system","content":"Be brief."},{"role":"user","content":"Hi"}]`},
		{`"input": [{"role": "developer", "content": "D"}, {"type": "reasoning", "summary": []}, {"type": "message",
			"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]}]`,
			`[{"role":"system","content":"D"},{"role":"user","content":"ab"}]`},
		{`"input": [{"role": "assistant", "content": [{"type": "output_text", "text": "I look."}]}, ` + call + `,` + call +
			`, {"type": "function_call_output", "call_id": "c1", "output": "7"},
			{"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "8"}]}, ` + call + `]`,
			`[{"role":"assistant","content":"I look.","tool_calls":[` + asChat + `,` + asChat + `]},` +
				`{"role":"tool","content":"7","tool_call_id":"c1"},{"role":"tool","content":"8","tool_call_id":"c1"},` +
				`{"role":"assistant","content":"","tool_calls":[` + asChat + `]}]`},

		{`"input": []`, "input: is neither a text nor a list of items"},
		{`"input": [{"type": "reasoning"}]`, "input: there is no message in it"},
		{`"input": "Hi", "previous_response_id": "resp_1"`, "send all items as input"},
		{`"input": "Hi", "max_output_tokens": 0`, "max_output_tokens: 0 is less than 1"},
		{`"input": "Hi", "text": {"format": {"type": "json_schema"}}`, `"json_schema" is not played`},
		{`"input": "Hi", "tools": [{"type": "web_search"}]`, "only functions are played"},
		{`"input": "Hi", "tools": [{"type": "function", "name": "f"}], "tool_choice": {"name": "g"}`,
			`there is no tool "g"`},
		{`"input": [{"role": "user", "content": [{"type": "input_image"}]}]`, "only text is played"},
		{`"input": [{"type": "item_reference", "id": "x"}]`, `an item of type "item_reference"`},
		{`"input": [{"type": "function_call", "call_id": "c", "name": "f", "arguments": "{x"}]`, "are no JSON"},
	} {
		asked, err := responses.Read([]byte("{" + tt.body + "}"))
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = string(encode(asked.Chat))
		}
		if got != tt.want && (err == nil || !strings.Contains(got, tt.want)) {
			t.Errorf("%s\n got %s\nwant %s", tt.body, got, tt.want)
		}
	}
}

// TestResponsesAreAnswered: an answer, whole and as a stream, with a call of a tool in it and without.
func TestResponsesAreAnswered(t *testing.T) {
	t.Parallel()
	const tools = `, "tools": [{"type": "function", "name": "f", "parameters": {}}]`
	for name, tt := range map[string]struct {
		more   string
		answer external.Answer
		want   []string
	}{
		"text": {answer: external.Answer{Text: "Hello", Finish: "stop", Prompt: 3, Tokens: 2},
			want: []string{`"status":"completed"`, `"type":"output_text"`, `"text":"Hello"`, `"total_tokens":5`}},
		"cut": {answer: external.Answer{Text: "Hel", Finish: "length"},
			want: []string{`"incomplete_details":{"reason":"max_output_tokens"}`, `"status":"incomplete"`}},
		"a call": {more: tools, answer: external.Answer{Finish: "stop",
			Text: "I look.<tool_call>{\"name\": \"f\", \"arguments\": {\"x\": 1}}</tool_call>"},
			want: []string{`"text":"I look."`, `"arguments":"{\"x\": 1}"`, `"call_id":"call_`, `"type":"function_call"`}},
		"text, as a stream": {more: `, "stream": true`, answer: external.Answer{Text: "Hello", Finish: "stop"},
			want: []string{"event: response.created\n", `"delta":"Hello"`, "event: response.output_text.done\n",
				"event: response.completed\n", `"sequence_number":8`}},
		"a call, as a stream": {more: tools + `, "stream": true`, answer: external.Answer{Finish: "stop",
			Text: "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>"},
			want: []string{"event: response.function_call_arguments.delta\n", `"delta":"{}"`,
				"event: response.function_call_arguments.done\n", `"output_index":0`}},
		"cut, as a stream": {more: `, "stream": true`, answer: external.Answer{Text: "Hel", Finish: "length"},
			want: []string{"event: response.incomplete\n"}},
	} {
		asked, err := responses.Read([]byte(`{"model": "m", "input": "Hi"` + tt.more + "}"))
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		responses.Answer(w, asked, tt.answer)
		for _, want := range tt.want {
			if !strings.Contains(w.Body.String(), want) {
				t.Errorf("%s: %s is not in\n%s", name, want, w.Body)
			}
		}
	}
}
