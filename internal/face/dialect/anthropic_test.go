package dialect

import (
	"slices"
	"strings"
	"testing"
)

// TestMessagesAreRead: what becomes of a call in Anthropic's words, in those of chat templates, and what is refused.
func TestMessagesAreRead(t *testing.T) {
	t.Parallel()
	messages := All[slices.IndexFunc(All, func(d *Dialect) bool { return d.Path == "/v1/messages" })]
	for _, tt := range []struct{ body, want string }{
		{`"system": "Be brief.", "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]`,
			`[{"role":"system","content":"Be brief."},{"role":"user","content":"Hi"}]`},
		{`"messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "f", "input": {"x": 1}}]},
			{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "7"}]}]`,
			`[{"role":"assistant","content":"","tool_calls":[{"id":"c1","type":"function","function":{"name":"f",` +
				`"arguments":"{\"x\": 1}"}}]},{"role":"tool","content":"7","tool_call_id":"c1"}]`},

		{`"messages": []`, "messages: there is none"},
		{`"messages": [{"role": "tool", "content": "x"}]`, `the role "tool" is neither user nor assistant`},
		{`"messages": [{"role": "user", "content": [{"type": "image"}]}]`, `a block of type "image"`},
		{`"messages": [{"role": "user", "content": 7}]`, "messages.0: content is neither text nor a list"},
		{`"messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "f", "input": "x"}]}]`,
			"messages.0.content.0: the input of the tool use c1 is no JSON object"},
		{`"messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "f"}]}]`,
			"is no JSON object"},
		{`"messages": [{"role": "user", "content": "x"}], "max_tokens": 0`, "max_tokens: 0 is less than 1"},
		{`"messages": [{"role": "user", "content": "x"}], "tools": [{"name": "f"}], "tool_choice": {"type": "some"}`,
			`tool_choice: "some" is none of`},
		{`"messages": "x"`, "messages: a string is not what belongs there"},
	} {
		asked, err := messages.Read([]byte("{" + tt.body + "}"))
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
