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

// Models say calls of tools in the form of Hermes, which is that of Qwen and of most open models' chat templates:
// <tool_call>{"name": ..., "arguments": {...}}</tool_call>.
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
	if !a.tools {
		return s
	}
	rest, text := answer.Text, ""
	for {
		before, after, found := strings.Cut(rest, toolBegins)
		inside, behind, whole := strings.Cut(after, toolEnds)
		var call struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		}
		if !found || !whole {
			text += rest
			break
		}
		text += before
		var object map[string]json.RawMessage
		if json.Unmarshal([]byte(inside), &call) != nil || call.Name == "" || json.Unmarshal(call.Arguments, &object) != nil {
			text += toolBegins + inside + toolEnds
		} else {
			t := toolCall{ID: fmt.Sprintf("call_%s_%d", a.Hash, len(s.calls)), Type: "function"}
			t.Function.Name, t.Function.Arguments = call.Name, string(call.Arguments)
			s.calls = append(s.calls, t)
		}
		rest = behind
	}
	if len(s.calls) > 0 {
		s.text = strings.TrimSpace(text)
	}
	return s
}
