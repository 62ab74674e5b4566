package dialect

import (
	"encoding/json"
	"fmt"
)

// tool is what the model may call, in OpenAI's form.
type tool struct {
	Type     string `json:"type"`
	Function struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters,omitempty"`
	} `json:"function"`
}

// toolCall is a call of a tool in a message, in OpenAI's form.
type toolCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// offer gives the call its tools. must is one of "auto", "none", "required", or the name of one after "tool:".
func (a *Asked) offer(tools []tool, must string) error {
	if len(tools) == 0 || must == "none" {
		return nil
	}
	names := []string{}
	for i, t := range tools {
		if t.Function.Name == "" {
			return fmt.Errorf("tools[%d]: has no name", i)
		}
		names = append(names, t.Function.Name)
	}
	a.Tools, a.offered = encode(tools), tools
	return a.hold(names, must)
}
