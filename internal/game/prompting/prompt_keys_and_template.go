// Package prompting makes prompts of the fields of a JSON object, and finds the answer in a completion: what
// environments of any content have in common.
package prompting

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/game/episode"
	"github.com/millrace/millrace/internal/rollout"
)

// Keys are the options of such an environment.
type Keys struct {
	// Template is the prompt, with fields in braces.
	Template string `json:"template"`
	// Chat has the engine's chat template put around the prompt, which is then the user's message.
	Chat   bool   `json:"chat"`
	System string `json:"system"` // a message before the user's
	// Constraint is a regular expression that the engine holds completions to.
	Constraint string   `json:"constraint"`
	Stop       []string `json:"stop"`
}

// Faults is everything that is wrong with them.
func (k *Keys) Faults() (faults []error) {
	if k.System != "" && !k.Chat {
		faults = append(faults, errors.New("system: is a chat message; set chat: true, or put the text into template"))
	}
	if _, err := regexp.Compile(k.Constraint); err != nil {
		faults = append(faults, fmt.Errorf("constraint: %w", err))
	}
	return faults
}

// Prompt asks an agent a text, in a chat after what was said before.
func (k *Keys) Prompt(agent, text string, before []rollout.Message) episode.Prompt {
	p := episode.Prompt{Agent: agent, Text: text, Stop: k.Stop}
	if k.Chat {
		p.Text = ""
		p.Messages = slices.Concat(k.system(), before)
		if text != "" {
			p.Messages = append(p.Messages, rollout.Message{Role: "user", Content: text})
		}
	}
	if k.Constraint != "" {
		p.Constraint = rollout.Constraint{Kind: rollout.RegexConstraint, Pattern: k.Constraint}
	}
	return p
}

func (k *Keys) system() []rollout.Message {
	if k.System == "" {
		return nil
	}
	return []rollout.Message{{Role: "system", Content: k.System}}
}

// Extracted is the last match of an expression in a text, or of that the first group if there is one, without space
// around it. An empty expression matches the whole.
func Extracted(expression *regexp.Regexp, text string) (string, bool) {
	if expression.String() == "" {
		return strings.TrimSpace(text), true
	}
	matches := expression.FindAllStringSubmatch(text, -1)
	if len(matches) == 0 {
		return "", false
	}
	last := matches[len(matches)-1]
	return strings.TrimSpace(last[min(1, len(last)-1)]), true
}

var field = regexp.MustCompile(`\{([A-Za-z_][A-Za-z0-9_.]*)\}`)

// Fill is a template with fields in place of their names in braces: texts and numbers as they are, all else as JSON. A
// dot leads into an object. A field that is missing, or null, is an error, and so is a text that is empty then.
func Fill(template string, fields map[string]any) (string, error) {
	var missing error
	text := field.ReplaceAllStringFunc(template, func(name string) string {
		name = name[1 : len(name)-1]
		v, err := shown(lookUp(fields, name))
		if err != nil {
			missing = fmt.Errorf("field %q of the template: %w", name, err)
		}
		return v
	})
	if missing == nil && text == "" {
		missing = errors.New("the prompt is empty")
	}
	return text, missing
}

func lookUp(fields map[string]any, path string) any {
	var v any = fields
	for name := range strings.SplitSeq(path, ".") {
		object, _ := v.(map[string]any)
		v = object[name]
	}
	return v
}

func shown(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", errors.New("is missing")
	case string:
		return v, nil
	}
	text, err := json.Marshal(v)
	return string(text), err
}
