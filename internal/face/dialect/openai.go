package dialect

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/millrace/millrace/internal/rollout"
)

// openAIBody is what both of OpenAI's calls have.
type openAIBody struct {
	Model    string          `json:"model"`
	Stop     json.RawMessage `json:"stop"`
	N        *int            `json:"n"`
	BestOf   *int            `json:"best_of"`
	Logprobs json.RawMessage `json:"logprobs"`
	Most     *int            `json:"max_tokens"`
	Stream   bool            `json:"stream"`
	Options  struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Structured map[string]json.RawMessage `json:"structured_outputs"` // of vLLM's
}

func (b *openAIBody) take(a *Asked) error {
	a.Model, a.Stream, a.usage = b.Model, b.Stream, b.Options.IncludeUsage
	if text := string(b.Logprobs); text != "" && text != "null" && text != "false" {
		return errors.New("logprobs: are kept in the trajectory, and not answered; leave it out")
	}
	if b.N != nil && *b.N != 1 || b.BestOf != nil && *b.BestOf != 1 {
		return errors.New("n: a turn has one answer; leave it out, or make a call for each")
	}
	if b.Most != nil {
		if a.Most = *b.Most; a.Most < 1 {
			return fmt.Errorf("max_tokens: %d is less than 1", a.Most)
		}
	}
	var one string
	switch {
	case len(b.Stop) == 0 || string(b.Stop) == "null":
	case json.Unmarshal(b.Stop, &one) == nil:
		a.Stop = []string{one}
	case json.Unmarshal(b.Stop, &a.Stop) != nil:
		return errors.New("stop: is neither a text nor a list of texts")
	}
	return b.constrain(&a.Hold)
}

// constrain takes vLLM's structured_outputs as far as turns have constraints.
func (b *openAIBody) constrain(c *rollout.Constraint) error {
	for name, value := range b.Structured {
		var err error
		switch {
		case string(value) == "null":
			continue
		case !c.IsZero():
			return errors.New("structured_outputs: holds the answer in two ways; one is played")
		case name == "choice":
			c.Kind, err = rollout.ChoiceConstraint, json.Unmarshal(value, &c.Choices)
		case name == "regex":
			c.Kind, err = rollout.RegexConstraint, json.Unmarshal(value, &c.Pattern)
		case name == "grammar":
			c.Kind, err = rollout.GrammarConstraint, json.Unmarshal(value, &c.Pattern)
		default:
			return fmt.Errorf("structured_outputs: %s is not played; choice, regex and grammar are", name)
		}
		if err != nil || len(c.Choices) == 0 && c.Pattern == "" {
			return fmt.Errorf("structured_outputs: %s is empty, or of the wrong type", name)
		}
	}
	return nil
}

func readChat(body []byte, a *Asked) error {
	var in struct {
		openAIBody
		MostCompletion *int `json:"max_completion_tokens"`
		Messages       []struct {
			Role       string          `json:"role"`
			Content    json.RawMessage `json:"content"`
			ToolCalls  []toolCall      `json:"tool_calls"`
			ToolCallID string          `json:"tool_call_id"`
		} `json:"messages"`
		Tools  []tool          `json:"tools"`
		Choice json.RawMessage `json:"tool_choice"`
		Format struct {
			Type string `json:"type"`
		} `json:"response_format"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return err
	}
	if in.MostCompletion != nil {
		in.Most = in.MostCompletion
	}
	if err := in.take(a); err != nil {
		return err
	}
	if in.Format.Type != "" && in.Format.Type != "text" {
		return fmt.Errorf("response_format: %q is not played; leave it out", in.Format.Type)
	}
	if len(in.Messages) == 0 {
		return errors.New("messages: there is none")
	}
	for i, m := range in.Messages {
		place := fmt.Sprintf("messages[%d]", i)
		text, err := textOf(m.Content, place)
		if err != nil {
			return err
		}
		if m.Role == "" {
			return fmt.Errorf("%s: has no role", place)
		}
		out := rollout.Message{Role: m.Role, Content: text, ToolCallID: m.ToolCallID}
		if len(m.ToolCalls) > 0 {
			for _, c := range m.ToolCalls {
				if !json.Valid([]byte(c.Function.Arguments)) {
					return fmt.Errorf("%s: the arguments of the tool call %s are no JSON", place, c.ID)
				}
			}
			out.ToolCalls = encode(m.ToolCalls)
		}
		a.Chat = append(a.Chat, out)
	}
	must, err := openAIChoice(in.Choice)
	if err != nil {
		return err
	}
	return a.offer(in.Tools, must)
}

func openAIChoice(choice json.RawMessage) (string, error) {
	must := "auto"
	var named tool
	switch {
	case len(choice) == 0 || string(choice) == "null" || json.Unmarshal(choice, &must) == nil:
		if must != "auto" && must != "none" && must != "required" {
			return "", fmt.Errorf("tool_choice: %q is none of auto, none and required", must)
		}
		return must, nil
	case json.Unmarshal(choice, &named) == nil && named.Function.Name != "":
		return "tool:" + named.Function.Name, nil
	}
	return "", errors.New("tool_choice: names no function")
}

func readCompletion(body []byte, a *Asked) error {
	var in struct {
		openAIBody
		Prompt json.RawMessage `json:"prompt"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return err
	}
	if err := in.take(a); err != nil {
		return err
	}
	var list []string
	switch {
	case json.Unmarshal(in.Prompt, &a.Prompt) == nil:
	case json.Unmarshal(in.Prompt, &list) == nil && len(list) == 1:
		a.Prompt = list[0]
	default:
		return errors.New("prompt: is not one text")
	}
	if a.Prompt == "" {
		return errors.New("prompt: is empty")
	}
	return nil
}

type object = map[string]any

func usageOf(s said) object {
	return object{"prompt_tokens": s.Prompt, "completion_tokens": s.Tokens, "total_tokens": s.Prompt + s.Tokens}
}

func finish(s said) string {
	if len(s.calls) > 0 {
		return "tool_calls"
	}
	return s.Finish
}

func writeChat(a *Asked, s said) any {
	message := object{"role": "assistant", "content": s.text, "refusal": nil}
	if len(s.calls) > 0 {
		message["tool_calls"] = s.calls
		if s.text == "" {
			message["content"] = nil
		}
	}
	return object{"id": "chatcmpl-" + s.id, "object": "chat.completion", "created": 0, "model": a.Model,
		"choices": []any{object{"index": 0, "message": message, "logprobs": nil, "finish_reason": finish(s)}},
		"usage":   usageOf(s)}
}

func writeCompletion(a *Asked, s said) any {
	return object{"id": "cmpl-" + s.id, "object": "text_completion", "created": 0, "model": a.Model,
		"choices": []any{object{"index": 0, "text": s.text, "logprobs": nil, "finish_reason": s.Finish}},
		"usage":   usageOf(s)}
}

// chunks are the parts of a stream of OpenAI's.
func chunks(a *Asked, kind string, whole any, s said, choices ...object) (events []event) {
	head := whole.(object)
	for _, choice := range choices {
		choice["index"] = 0
		events = append(events, event{data: object{"id": head["id"], "object": kind, "created": 0, "model": a.Model,
			"choices": []any{choice}}})
	}
	if a.usage {
		events = append(events, event{data: object{"id": head["id"], "object": kind, "created": 0, "model": a.Model,
			"choices": []any{}, "usage": usageOf(s)}})
	}
	return append(events, event{data: []byte("[DONE]")})
}

func streamChat(a *Asked, whole any, s said) []event {
	choices := []object{{"delta": object{"role": "assistant", "content": s.text}, "finish_reason": nil}}
	for i, c := range s.calls {
		choices = append(choices, object{"finish_reason": nil, "delta": object{"tool_calls": []any{object{"index": i,
			"id": c.ID, "type": c.Type, "function": c.Function}}}})
	}
	choices = append(choices, object{"delta": object{}, "finish_reason": finish(s)})
	return chunks(a, "chat.completion.chunk", whole, s, choices...)
}

func streamCompletion(a *Asked, whole any, s said) []event {
	return chunks(a, "text_completion", whole, s, object{"text": s.text, "finish_reason": nil},
		object{"text": "", "finish_reason": s.Finish})
}

// faultTypes are the types of errors, by status; the same words serve both dialects where they have one.
var faultTypes = map[int]string{
	http.StatusUnauthorized:          "authentication_error",
	http.StatusNotFound:              "not_found_error",
	http.StatusRequestEntityTooLarge: "request_too_large",
	http.StatusServiceUnavailable:    "overloaded_error",
	http.StatusInternalServerError:   "api_error",
}

func faultType(status int) string {
	if name, known := faultTypes[status]; known {
		return name
	}
	return "invalid_request_error"
}

func openAIFault(status int, text, _ string) any {
	return object{"error": object{"message": text, "type": faultType(status), "param": nil, "code": nil}}
}
