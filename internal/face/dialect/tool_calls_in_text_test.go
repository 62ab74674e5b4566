package dialect

import (
	"encoding/json"
	"regexp"
	"testing"

	"github.com/millrace/millrace/internal/game/external"
)

// TestArgumentsAreJSON: what the constraint lets an engine write is a value that JSON has: no number begins with a
// needless 0.
func TestArgumentsAreJSON(t *testing.T) {
	t.Parallel()
	whole := regexp.MustCompile("^(" + value + ")$")
	for _, text := range []string{"0", "-7", "718260885", "0.5", "-6.518", `"a"`, `""`, "true", "null",
		"0718260885", "-01", "00", "1.", ".5", "a", `"a`} {
		if got, want := whole.MatchString(text), json.Valid([]byte(text)); got != want {
			t.Errorf("%s: allowed %v, is JSON %v", text, got, want)
		}
	}
}

// Models of several families call a tool, and what is no call stays text.
func TestCallsOfToolsInText(t *testing.T) {
	t.Parallel()
	const schema = `{"type": "object", "properties": {"x": {"type": "integer"}, "at": {"type": "array"}, ` +
		`"text": {"type": "string"}}}`
	for text, want := range map[string]struct {
		text  string
		calls string // names and arguments
	}{
		`I look. <tool_call>{"name": "f", "arguments": {"x": 1}}</tool_call>`: {"I look.", `f{"x": 1}`},
		"<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>\n<tool_call>{\"name\": \"g\", \"arguments\": {}}" +
			"</tool_call>": {"", `f{} g{}`},
		"<think>7?</think><tool_call>\n<function=f>\n<parameter=x>\n1\n</parameter>\n<parameter=text>\n2\n</parameter>\n" +
			"<parameter=at>[1, 2]</parameter>\n</function>\n</tool_call>": {"<think>7?</think>",
			`f{"at":[1,2],"text":"2","x":1}`},
		`<tool_call><function=f><parameter=x>one</parameter></function></tool_call>`: {"", `f{"x":"one"}`},
		`<tool_call><function=f></function></tool_call>`:                             {"", `f{}`},
		` {"name": "f", "parameters": {"x": 1}} `:                                    {"", `f{"x": 1}`},
		`<|python_tag|>{"name": "f", "parameters": {}}; {"name": "g", "parameters": {}}`: {
			"", `f{} g{}`},
		`[TOOL_CALLS] [{"name": "f", "arguments": {"x": 1}}, {"name": "g", "arguments": {}}]`: {"", `f{"x": 1} g{}`},
		`[{"name": "f", "arguments": {}}]`: {"", `f{}`},

		`no call`:                               {"no call", ""},
		`{"x": 1}`:                              {`{"x": 1}`, ""},
		`[]`:                                    {`[]`, ""},
		`"f"`:                                   {`"f"`, ""},
		`null`:                                  {`null`, ""},
		`7 {"a":1}`:                             {`7 {"a":1}`, ""},
		`{"name": "h", "parameters": {}}`:       {`{"name": "h", "parameters": {}}`, ""},
		`{"name": "f", "parameters": 7}`:        {`{"name": "f", "parameters": 7}`, ""},
		`{"name": "f", "parameters": {}} is it`: {`{"name": "f", "parameters": {}} is it`, ""},
		`<tool_call>{"name": "f"}</tool_call>`:  {`<tool_call>{"name": "f"}</tool_call>`, ""},
		`<tool_call>{"name": "f", "arguments": {}}`:      {`<tool_call>{"name": "f", "arguments": {}}`, ""},
		`<tool_call><function=f></tool_call>`:            {`<tool_call><function=f></tool_call>`, ""},
		`<tool_call><function=h></function></tool_call>`: {`<tool_call><function=h></function></tool_call>`, ""},
	} {
		a := &Asked{}
		tools := make([]tool, 2)
		tools[0].Function.Name, tools[0].Function.Parameters, tools[1].Function.Name = "f", []byte(schema), "g"
		if err := a.offer(tools, "auto"); err != nil {
			t.Fatal(err)
		}
		s := understood(a, external.Answer{Text: text})
		calls := ""
		for i, c := range s.calls {
			if i > 0 {
				calls += " "
			}
			calls += c.Function.Name + c.Function.Arguments
			if !json.Valid([]byte(c.Function.Arguments)) {
				t.Errorf("%s: its arguments are no JSON", text)
			}
		}
		if s.text != want.text || calls != want.calls {
			t.Errorf("%s\nis %q and calls %q, want %q and %q", text, s.text, calls, want.text, want.calls)
		}
	}
}
