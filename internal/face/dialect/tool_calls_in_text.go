package dialect

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/game/external"
	"github.com/millrace/millrace/internal/rollout"
)

// Models say calls of tools as they were trained to, and what they say tells how:
//
//	Hermes, Qwen   <tool_call>{"name": "f", "arguments": {"x": 1}}</tool_call>, as often as they like, and text beside it
//	Qwen3-Coder    <tool_call><function=f><parameter=x>1</parameter></function></tool_call>, likewise
//	Llama 3        {"name": "f", "parameters": {"x": 1}}; ... and nothing else
//	Mistral        [{"name": "f", "arguments": {"x": 1}}, ...] and nothing else
const (
	toolBegins = "<tool_call>"
	toolEnds   = "</tool_call>"
)

// hold has the engine hold the model to a call of one of the tools.
func (a *Asked) hold(names []string, must string) error {
	if one, named := strings.CutPrefix(must, "tool:"); named {
		if !slices.Contains(names, one) {
			return fmt.Errorf("tool_choice: there is no tool %q", one)
		}
		names = []string{one}
	} else if must != "required" {
		return nil
	}
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = regexp.QuoteMeta(name)
	}
	a.Hold = rollout.Constraint{Kind: rollout.RegexConstraint, Pattern: toolBegins + `\n\{"name": "(` +
		strings.Join(quoted, "|") + `)", "arguments": ` + arguments + `\}\n` + toolEnds}
	return nil
}

// arguments is a JSON object of texts, numbers and the like: what most tools take.
const arguments = `\{("[a-z_]{1,32}": ` + value + `(, "[a-z_]{1,32}": ` + value + `){0,7})?\}`

const value = `("[^"\\\x00-\x1f]{0,60}"|-?(0|[1-9][0-9]{0,11})(\.[0-9]{1,6})?|true|false|null)`

// said is what the model said, taken apart.
type said struct {
	external.Answer
	id    string // of the call, without its dialect's lead
	text  string // beside calls of tools
	calls []toolCall
}

// understood takes an answer apart. What is no whole call of a tool stays text.
func understood(a *Asked, answer external.Answer) said {
	s := said{Answer: answer, id: a.Hash, text: answer.Text}
	if len(a.offered) == 0 {
		return s
	}
	calls, text := a.alone(answer.Text), ""
	for rest := answer.Text; calls == nil; {
		before, after, _ := strings.Cut(rest, toolBegins)
		inside, behind, whole := strings.Cut(after, toolEnds)
		if !whole {
			text += rest
			break
		}
		text += before
		if call, ok := a.between(inside); ok {
			s.add(call)
		} else {
			text += toolBegins + inside + toolEnds
		}
		rest = behind
	}
	for _, call := range calls {
		s.add(call)
	}
	if len(s.calls) > 0 {
		s.text = strings.TrimSpace(text)
	}
	return s
}

func (s *said) add(c spoken) {
	t := toolCall{ID: fmt.Sprintf("call_%s_%d", s.id, len(s.calls)), Type: "function"}
	t.Function.Name, t.Function.Arguments = c.Name, string(c.arguments())
	s.calls = append(s.calls, t)
}

// spoken is a call in JSON.
type spoken struct {
	Name       string          `json:"name"`
	Arguments  json.RawMessage `json:"arguments"`
	Parameters json.RawMessage `json:"parameters"`
}

// arguments are a JSON object; nil: it is no call.
func (c spoken) arguments() json.RawMessage {
	for _, given := range []json.RawMessage{c.Arguments, c.Parameters} {
		var object map[string]json.RawMessage
		if c.Name != "" && json.Unmarshal(given, &object) == nil && object != nil {
			return given
		}
	}
	return nil
}

// alone reads calls of tools that are offered, if an answer is nothing else. Before them may be what announces them.
func (a *Asked) alone(text string) (calls []spoken) {
	text = strings.TrimSpace(text)
	text = strings.TrimPrefix(strings.TrimPrefix(text, "<|python_tag|>"), "[TOOL_CALLS]")
	for text != "" {
		decoder := json.NewDecoder(strings.NewReader(text))
		var value json.RawMessage
		if decoder.Decode(&value) != nil {
			return nil
		}
		several := make([]spoken, 1)
		if json.Unmarshal(value, &several[0]) != nil && json.Unmarshal(value, &several) != nil {
			return nil
		}
		for _, c := range several {
			if c.arguments() == nil || a.tool(c.Name) == nil {
				return nil
			}
		}
		calls = append(calls, several...)
		text = strings.TrimLeft(text[decoder.InputOffset():], "; \n")
	}
	return calls
}

func (a *Asked) tool(name string) *tool {
	at := slices.IndexFunc(a.offered, func(t tool) bool { return t.Function.Name == name })
	if at < 0 {
		return nil
	}
	return &a.offered[at]
}

var parameter = regexp.MustCompile(`(?s)<parameter=([^>]+)>\n?(.*?)\n?</parameter>`)

// between reads the call between two marks.
func (a *Asked) between(text string) (c spoken, ok bool) {
	function, tagged := strings.CutPrefix(strings.TrimSpace(text), "<function=")
	if !tagged {
		ok = json.Unmarshal([]byte(text), &c) == nil && c.arguments() != nil
		return c, ok
	}
	name, parameters, _ := strings.Cut(function, ">")
	t := a.tool(name)
	if t == nil || !strings.HasSuffix(parameters, "</function>") {
		return c, false
	}
	var schema struct {
		Properties map[string]struct{ Type any }
	}
	_ = json.Unmarshal(t.Function.Parameters, &schema) // without one all are texts
	given := map[string]any{}
	for _, p := range parameter.FindAllStringSubmatch(parameters, -1) {
		given[p[1]] = p[2]
		if kind := schema.Properties[p[1]].Type; kind != nil && kind != "string" && json.Valid([]byte(p[2])) {
			given[p[1]] = json.RawMessage(p[2])
		}
	}
	return spoken{Name: name, Arguments: encode(given)}, true
}
