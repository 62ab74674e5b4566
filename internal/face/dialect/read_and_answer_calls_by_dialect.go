// Package dialect reads calls of models as programs make them, in OpenAI's words or Anthropic's, and writes answers
// and errors in the same words. What the model said is read here, too: a text may hold calls of tools. It knows neither
// routes nor games. Start reading at Dialect.
package dialect

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/millrace/millrace/internal/game/external"
)

// Dialect is how one kind of call is read and answered.
type Dialect struct {
	Path string // after the agent's address
	// Count says that a call asks only how many tokens a prompt has.
	Count bool
	read  func(body []byte, a *Asked) error
	write func(a *Asked, said said) any
	// events are what a stream of an answer is made of; each is written with its name where the dialect has names.
	events func(a *Asked, answer any, said said) []event
	fault  func(status int, text, requestID string) any
}

// All are the dialects, each of its own path.
var All = []*Dialect{
	{Path: "/v1/chat/completions", read: readChat, write: writeChat, events: streamChat, fault: openAIFault},
	{Path: "/v1/completions", read: readCompletion, write: writeCompletion, events: streamCompletion, fault: openAIFault},
	{Path: "/v1/responses", read: readResponses, write: writeResponses, events: streamResponses, fault: openAIFault},
	{Path: "/v1/messages", read: readMessages, write: writeMessages, events: streamMessages, fault: anthropicFault},
	{Path: "/v1/messages/count_tokens", Count: true, read: readMessages, fault: anthropicFault},
}

// Asked is a call that was understood.
type Asked struct {
	external.Call
	Model  string
	Stream bool
	usage  bool // the stream ends with what the call cost

	offered []tool // what is said may call them
}

// Read reads the body of a call.
func (d *Dialect) Read(body []byte) (*Asked, error) {
	var all map[string]any
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	if err := decoder.Decode(&all); err != nil || all == nil {
		return nil, errors.New("the body is no JSON object")
	}
	a := &Asked{}
	if err := d.read(body, a); err != nil {
		return nil, explained(err)
	}
	delete(all, "stream") // it is the same call, however its answer comes
	delete(all, "stream_options")
	same, err := json.Marshal(all) // with the keys in order
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(append([]byte(d.Path+"\n"), same...))
	a.Hash = hex.EncodeToString(sum[:12])
	return a, nil
}

// explained is an error of JSON's types without Go's words.
func explained(err error) error {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return fmt.Errorf("%s: a %s is not what belongs there", strings.TrimPrefix(wrong.Field, "openAIBody."),
			wrong.Value)
	}
	return err
}

// event is one part of a stream.
type event struct {
	name string
	data any
}

// Answer writes the answer of a call, whole or as a stream of events.
func (d *Dialect) Answer(w http.ResponseWriter, a *Asked, answer external.Answer) {
	s := understood(a, answer)
	whole := d.write(a, s)
	if !a.Stream {
		writeJSON(w, http.StatusOK, whole)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	var text bytes.Buffer
	for _, e := range d.events(a, whole, s) {
		if e.name != "" {
			text.WriteString("event: " + e.name + "\n")
		}
		data, ok := e.data.([]byte)
		if !ok {
			data = encode(e.data)
		}
		text.WriteString("data: ")
		text.Write(data)
		text.WriteString("\n\n")
	}
	_, _ = w.Write(text.Bytes()) // a client that has gone needs no answer
}

// Counted answers how many tokens a prompt has.
func (d *Dialect) Counted(w http.ResponseWriter, n int) {
	writeJSON(w, http.StatusOK, map[string]any{"input_tokens": n})
}

// Fault writes an error.
func (d *Dialect) Fault(w http.ResponseWriter, status int, text, requestID string) {
	writeJSON(w, status, d.fault(status, text, requestID))
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(encode(v)) // a client that has gone needs no answer
}

func encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // It is made of strings, numbers, and JSON that was read.
	}
	return text
}

// textOf is the text of a message's content: a string, or parts of which all are texts.
func textOf(content json.RawMessage, place string) (string, error) {
	if len(content) == 0 || string(content) == "null" {
		return "", nil
	}
	var text string
	if json.Unmarshal(content, &text) == nil {
		return text, nil
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(content, &parts) != nil {
		return "", fmt.Errorf("%s: content is neither text nor a list of parts", place)
	}
	for _, p := range parts {
		if p.Type != "text" && p.Type != "input_text" && p.Type != "output_text" {
			return "", fmt.Errorf("%s: a part of type %q; only text is played", place, p.Type)
		}
		text += p.Text
	}
	return text, nil
}
