package dialect

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/millrace/millrace/internal/rollout"
)

// block is a part of a message of Anthropic's.
type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
}

func readMessages(body []byte, a *Asked) error {
	var in struct {
		Model    string          `json:"model"`
		Most     *int            `json:"max_tokens"`
		Stop     []string        `json:"stop_sequences"`
		Stream   bool            `json:"stream"`
		System   json.RawMessage `json:"system"`
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
		Tools []struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Schema      json.RawMessage `json:"input_schema"`
		} `json:"tools"`
		Choice struct {
			Type string `json:"type"`
			Name string `json:"name"`
		} `json:"tool_choice"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return err
	}
	a.Model, a.Stop, a.Stream = in.Model, in.Stop, in.Stream
	if in.Most != nil {
		if a.Most = *in.Most; a.Most < 1 {
			return fmt.Errorf("max_tokens: %d is less than 1", a.Most)
		}
	}
	system, err := textOf(in.System, "system")
	if err != nil {
		return err
	}
	if system != "" {
		a.Chat = append(a.Chat, rollout.Message{Role: "system", Content: system})
	}
	if len(in.Messages) == 0 {
		return errors.New("messages: there is none")
	}
	for i, m := range in.Messages {
		if err := a.addMessage(m.Role, m.Content, fmt.Sprintf("messages.%d", i)); err != nil {
			return err
		}
	}
	tools := []tool{}
	for _, t := range in.Tools {
		out := tool{Type: "function"}
		out.Function.Name, out.Function.Description, out.Function.Parameters = t.Name, t.Description, t.Schema
		tools = append(tools, out)
	}
	must := map[string]string{"": "auto", "auto": "auto", "none": "none", "any": "required",
		"tool": "tool:" + in.Choice.Name}[in.Choice.Type]
	if must == "" {
		return fmt.Errorf("tool_choice: %q is none of auto, any, tool and none", in.Choice.Type)
	}
	return a.offer(tools, must)
}

// addMessage takes a message apart: uses of tools and their results are messages of their own kind to a chat template.
func (a *Asked) addMessage(role string, content json.RawMessage, place string) error {
	if role != "user" && role != "assistant" && role != "system" {
		return fmt.Errorf("%s: the role %q is neither user nor assistant", place, role)
	}
	var blocks []block
	if json.Unmarshal(content, &blocks) != nil {
		text, err := textOf(content, place)
		a.Chat = append(a.Chat, rollout.Message{Role: role, Content: text})
		return err
	}
	out, uses := rollout.Message{Role: role}, []toolCall{}
	for i, b := range blocks {
		switch b.Type {
		case "text":
			out.Content += b.Text
		case "thinking", "redacted_thinking": // templates leave it out, too
		case "tool_use":
			var object map[string]json.RawMessage
			if json.Unmarshal(b.Input, &object) != nil || object == nil {
				return fmt.Errorf("%s.content.%d: the input of the tool use %s is no JSON object", place, i, b.ID)
			}
			c := toolCall{ID: b.ID, Type: "function"}
			c.Function.Name, c.Function.Arguments = b.Name, string(b.Input)
			uses = append(uses, c)
		case "tool_result":
			text, err := textOf(b.Content, fmt.Sprintf("%s.content.%d", place, i))
			if err != nil {
				return err
			}
			a.Chat = append(a.Chat, rollout.Message{Role: "tool", Content: text, ToolCallID: b.ToolUseID})
		default:
			return fmt.Errorf("%s: a block of type %q; only text and tools are played", place, b.Type)
		}
	}
	if len(uses) > 0 {
		out.ToolCalls = encode(uses)
	}
	if out.Content != "" || len(uses) > 0 {
		a.Chat = append(a.Chat, out)
	}
	return nil
}

func writeMessages(a *Asked, s said) any {
	blocks := []any{}
	if s.text != "" {
		blocks = append(blocks, object{"type": "text", "text": s.text})
	}
	for _, c := range s.calls {
		blocks = append(blocks, object{"type": "tool_use", "id": c.ID, "name": c.Function.Name,
			"input": json.RawMessage(c.Function.Arguments)})
	}
	reason := map[string]string{rollout.FinishStop: "end_turn", rollout.FinishLength: "max_tokens"}[s.Finish]
	if len(s.calls) > 0 {
		reason = "tool_use"
	}
	return object{"id": "msg_" + s.id, "type": "message", "role": "assistant", "model": a.Model, "content": blocks,
		"stop_reason": reason, "stop_sequence": nil,
		"usage": object{"input_tokens": s.Prompt, "output_tokens": s.Tokens}}
}

func streamMessages(_ *Asked, whole any, s said) []event {
	message := whole.(object)
	head := object{}
	for name, v := range message {
		head[name] = v
	}
	head["content"], head["stop_reason"] = []any{}, nil
	head["usage"] = object{"input_tokens": s.Prompt, "output_tokens": 0}
	events := []event{{"message_start", object{"message": head}}}
	for i, one := range message["content"].([]any) {
		b := one.(object)
		start, delta := object{"type": "text", "text": ""}, object{"type": "text_delta", "text": b["text"]}
		if b["type"] == "tool_use" {
			start = object{"type": "tool_use", "id": b["id"], "name": b["name"], "input": object{}}
			delta = object{"type": "input_json_delta", "partial_json": string(b["input"].(json.RawMessage))}
		}
		events = append(events, event{"content_block_start", object{"index": i, "content_block": start}},
			event{"content_block_delta", object{"index": i, "delta": delta}},
			event{"content_block_stop", object{"index": i}})
	}
	events = append(events, event{"message_delta", object{"delta": object{"stop_reason": message["stop_reason"],
		"stop_sequence": nil}, "usage": object{"output_tokens": s.Tokens}}}, event{"message_stop", object{}})
	for _, e := range events {
		e.data.(object)["type"] = e.name
	}
	return events
}

func anthropicFault(status int, text, requestID string) any {
	return object{"type": "error", "error": object{"type": faultType(status), "message": text},
		"request_id": requestID}
}
