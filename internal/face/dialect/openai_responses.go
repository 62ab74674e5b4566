package dialect

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"github.com/millrace/millrace/internal/rollout"
)

// OpenAI's responses (https://platform.openai.com/docs/api-reference/responses): a conversation is a list of items, in
// which a call of a tool and its output are items of their own. Nothing is stored here, so a call brings all of it.

// inputItem is an item of what is asked.
type inputItem struct {
	Type      string          `json:"type"`
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments string          `json:"arguments"`
	Output    json.RawMessage `json:"output"`
}

func readResponses(body []byte, a *Asked) error {
	var in struct {
		Model        string          `json:"model"`
		Instructions string          `json:"instructions"`
		Input        json.RawMessage `json:"input"`
		Most         *int            `json:"max_output_tokens"`
		Stream       bool            `json:"stream"`
		Previous     string          `json:"previous_response_id"`
		Conversation json.RawMessage `json:"conversation"`
		Tools        []struct {
			Type        string          `json:"type"`
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Parameters  json.RawMessage `json:"parameters"`
		} `json:"tools"`
		Choice json.RawMessage `json:"tool_choice"`
		Text   struct {
			Format struct {
				Type string `json:"type"`
			} `json:"format"`
		} `json:"text"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return err
	}
	a.Model, a.Stream = in.Model, in.Stream
	if in.Previous != "" || len(in.Conversation) > 0 && string(in.Conversation) != "null" {
		return errors.New("previous_response_id, conversation: nothing is stored here; send all items as input")
	}
	if in.Most != nil {
		if a.Most = *in.Most; a.Most < 1 {
			return fmt.Errorf("max_output_tokens: %d is less than 1", a.Most)
		}
	}
	if format := in.Text.Format.Type; format != "" && format != "text" {
		return fmt.Errorf("text.format: %q is not played; leave it out", format)
	}
	if in.Instructions != "" {
		a.Chat = append(a.Chat, rollout.Message{Role: "system", Content: in.Instructions})
	}
	if err := a.addItems(in.Input); err != nil {
		return err
	}
	tools := []tool{}
	for i, t := range in.Tools {
		if t.Type != "function" {
			return fmt.Errorf("tools[%d]: a tool of type %q; only functions are played", i, t.Type)
		}
		out := tool{Type: t.Type}
		out.Function.Name, out.Function.Description, out.Function.Parameters = t.Name, t.Description, t.Parameters
		tools = append(tools, out)
	}
	var named struct {
		Name string `json:"name"`
	}
	if json.Unmarshal(in.Choice, &named) == nil && named.Name != "" {
		return a.offer(tools, "tool:"+named.Name)
	}
	must, err := openAIChoice(in.Choice)
	if err != nil {
		return err
	}
	return a.offer(tools, must)
}

// addItems makes messages of items, as chat templates have them.
func (a *Asked) addItems(input json.RawMessage) error {
	var text string
	if json.Unmarshal(input, &text) == nil && text != "" {
		a.Chat = append(a.Chat, rollout.Message{Role: "user", Content: text})
		return nil
	}
	var items []inputItem
	if err := json.Unmarshal(input, &items); err != nil || len(items) == 0 {
		return errors.New("input: is neither a text nor a list of items")
	}
	uses := []toolCall{} // of the last message
	for i, item := range items {
		place := fmt.Sprintf("input[%d]", i)
		switch item.Type {
		case "function_call":
			if !json.Valid([]byte(item.Arguments)) {
				return fmt.Errorf("%s: the arguments of the tool call %s are no JSON", place, item.CallID)
			}
			if last := len(a.Chat) - 1; last < 0 || a.Chat[last].Role != "assistant" {
				a.Chat = append(a.Chat, rollout.Message{Role: "assistant"})
			}
			c := toolCall{ID: item.CallID, Type: "function"}
			c.Function.Name, c.Function.Arguments = item.Name, item.Arguments
			uses = append(uses, c)
			a.Chat[len(a.Chat)-1].ToolCalls = encode(uses)
			continue
		case "function_call_output":
			text, err := textOf(item.Output, place)
			if err != nil {
				return err
			}
			a.Chat = append(a.Chat, rollout.Message{Role: "tool", Content: text, ToolCallID: item.CallID})
		case "reasoning": // templates leave it out, too
		case "", "message":
			text, err := textOf(item.Content, place)
			if err != nil {
				return err
			}
			role := item.Role
			switch role {
			case "developer":
				role = "system"
			case "user", "assistant", "system":
			default:
				return fmt.Errorf("%s: the role %q is none of user, assistant, system and developer", place, role)
			}
			a.Chat = append(a.Chat, rollout.Message{Role: role, Content: text})
		default:
			return fmt.Errorf("%s: an item of type %q; only messages and calls of functions are played", place, item.Type)
		}
		uses = []toolCall{}
	}
	if len(a.Chat) == 0 {
		return errors.New("input: there is no message in it")
	}
	return nil
}

func writeResponses(a *Asked, s said) any {
	output := []any{}
	if s.text != "" || len(s.calls) == 0 {
		output = append(output, object{"id": "msg_" + s.id, "type": "message", "role": "assistant", "status": "completed",
			"content": []any{outputText(s.text)}})
	}
	for i, c := range s.calls {
		output = append(output, object{"id": fmt.Sprintf("fc_%s_%d", s.id, i), "type": "function_call", "call_id": c.ID,
			"name": c.Function.Name, "arguments": c.Function.Arguments, "status": "completed"})
	}
	whole := object{"id": "resp_" + s.id, "object": "response", "created_at": 0, "status": "completed", "error": nil,
		"incomplete_details": nil, "instructions": nil, "metadata": object{}, "model": a.Model, "output": output,
		"parallel_tool_calls": true, "tool_choice": "auto", "tools": []any{}, "temperature": nil, "top_p": nil,
		"usage": object{"input_tokens": s.Prompt, "input_tokens_details": object{"cached_tokens": 0},
			"output_tokens": s.Tokens, "output_tokens_details": object{"reasoning_tokens": 0},
			"total_tokens": s.Prompt + s.Tokens}}
	if s.Finish == rollout.FinishLength {
		whole["status"], whole["incomplete_details"] = "incomplete", object{"reason": "max_output_tokens"}
	}
	return whole
}

func outputText(text string) object {
	return object{"type": "output_text", "text": text, "annotations": []any{}, "logprobs": []any{}}
}

func streamResponses(_ *Asked, whole any, _ said) (events []event) {
	response := whole.(object)
	add := func(name string, data object) {
		data["type"], data["sequence_number"] = name, len(events)
		events = append(events, event{name, data})
	}
	begun := maps.Clone(response)
	begun["status"], begun["incomplete_details"], begun["output"], begun["usage"] = "in_progress", nil, []any{}, nil
	add("response.created", object{"response": begun})
	add("response.in_progress", object{"response": begun})
	for i, one := range response["output"].([]any) {
		item := one.(object)
		of := func(more object) object {
			more["output_index"], more["item_id"] = i, item["id"]
			return more
		}
		empty := maps.Clone(item)
		empty["status"] = "in_progress"
		if item["type"] == "function_call" {
			empty["arguments"] = ""
			add("response.output_item.added", object{"output_index": i, "item": empty})
			add("response.function_call_arguments.delta", of(object{"delta": item["arguments"]}))
			add("response.function_call_arguments.done", of(object{"arguments": item["arguments"], "name": item["name"]}))
		} else {
			empty["content"] = []any{}
			part := item["content"].([]any)[0].(object)
			in := func(more object) object {
				more["content_index"] = 0
				return of(more)
			}
			add("response.output_item.added", object{"output_index": i, "item": empty})
			add("response.content_part.added", in(object{"part": outputText("")}))
			add("response.output_text.delta", in(object{"delta": part["text"], "logprobs": []any{}}))
			add("response.output_text.done", in(object{"text": part["text"], "logprobs": []any{}}))
			add("response.content_part.done", in(object{"part": part}))
		}
		add("response.output_item.done", object{"output_index": i, "item": item})
	}
	add("response."+response["status"].(string), object{"response": response})
	return events
}
