package dialect

import (
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/rollout"
)

// TestStructuredOutputs: what a program holds an answer to reaches the engine, or is refused: it is never dropped.
func TestStructuredOutputs(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		given string
		want  rollout.Constraint
		fault string
	}{
		{`{"choice": ["a1", "b2"]}`, rollout.Constraint{Kind: rollout.ChoiceConstraint, Choices: []string{"a1", "b2"}}, ""},
		{`{"regex": "[abc][123]", "json": null}`, rollout.Constraint{Kind: rollout.RegexConstraint, Pattern: "[abc][123]"}, ""},
		{`{"grammar": "root ::= \"a\""}`, rollout.Constraint{Kind: rollout.GrammarConstraint, Pattern: `root ::= "a"`}, ""},
		{`null`, rollout.Constraint{}, ""},
		{`{}`, rollout.Constraint{}, ""},
		{`{"json": {"type": "object"}}`, rollout.Constraint{}, "json is not played; choice, regex and grammar are"},
		{`{"regex": "a", "choice": ["a"]}`, rollout.Constraint{}, "in two ways"},
		{`{"choice": []}`, rollout.Constraint{}, "choice is empty, or of the wrong type"},
		{`{"regex": 7}`, rollout.Constraint{}, "regex is empty, or of the wrong type"},
		{`7`, rollout.Constraint{}, "structured_outputs: a number is not what belongs there"},
	} {
		for path, rest := range map[string]string{"/v1/chat/completions": `"messages": [{"role": "user", "content": "x"}]`,
			"/v1/completions": `"prompt": "x"`} {
			d := All[slices.IndexFunc(All, func(d *Dialect) bool { return d.Path == path })]
			asked, err := d.Read([]byte(`{"model": "m", "structured_outputs": ` + tt.given + `, ` + rest + `}`))
			switch {
			case tt.fault != "":
				if err == nil || !strings.Contains(err.Error(), tt.fault) {
					t.Errorf("%s: %v, want %q", tt.given, err, tt.fault)
				}
			case err != nil:
				t.Errorf("%s: %v", tt.given, err)
			case asked.Hold.Kind != tt.want.Kind || asked.Hold.Pattern != tt.want.Pattern ||
				!slices.Equal(asked.Hold.Choices, tt.want.Choices):
				t.Errorf("%s: held to %+v, want %+v", tt.given, asked.Hold, tt.want)
			}
		}
	}
}
