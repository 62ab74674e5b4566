package vllm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
)

// answer is the part of a completion's answer that is read; the rest is skipped. Reading needs at most a few times the
// memory of the answer's bytes, whatever they are.
type answer struct {
	Model   string
	Choices []choice // mostChoices at most
	Usage   *usage
}

// mostChoices is the number of choices asked for.
const mostChoices = 1

type usage struct {
	Prompt     int64
	Completion int64
	Cached     *int64 // nil: not told
}

type choice struct {
	Index          int
	Text           *string
	FinishReason   string
	TokenIDs       []int32
	PromptTokenIDs []int32
	Logprobs       []float32 // nil: none
}

// read reads an answer. A key that occurs twice is read twice, and the second value stands.
func (a *answer) read(body []byte) error {
	r := &jsonReader{text: body}
	r.object(func(key []byte) {
		switch string(key) {
		case "model":
			a.Model = r.string()
		case "choices":
			a.Choices = nil
			r.list(func() {
				if len(a.Choices) == mostChoices {
					r.fail("a list of more than %d", mostChoices)
					return
				}
				a.Choices = append(a.Choices, readChoice(r))
			})
		case "usage":
			a.Usage = readUsage(r)
		default:
			r.skip()
		}
	})
	return r.end()
}

func readChoice(r *jsonReader) (c choice) {
	r.object(func(key []byte) {
		switch string(key) {
		case "index":
			c.Index = int(r.integer())
		case "text":
			c.Text = nil
			if !r.null() {
				text := r.string()
				c.Text = &text
			}
		case "finish_reason":
			c.FinishReason = r.string()
		case "token_ids":
			c.TokenIDs = r.tokenIDs()
		case "prompt_token_ids":
			c.PromptTokenIDs = r.tokenIDs()
		case "logprobs":
			c.Logprobs = readLogprobs(r)
		default:
			r.skip()
		}
	})
	return c
}

func readLogprobs(r *jsonReader) (probs []float32) {
	if r.null() {
		return nil
	}
	probs = []float32{}
	r.object(func(key []byte) {
		if string(key) == "token_logprobs" {
			probs = r.logprobs()
			return
		}
		r.skip()
	})
	return probs
}

func readUsage(r *jsonReader) *usage {
	if r.null() {
		return nil
	}
	u := &usage{}
	r.object(func(key []byte) {
		switch string(key) {
		case "prompt_tokens":
			u.Prompt = r.integer()
		case "completion_tokens":
			u.Completion = r.integer()
		case "prompt_tokens_details":
			u.Cached = readCached(r)
		default:
			r.skip()
		}
	})
	return u
}

func readCached(r *jsonReader) *int64 {
	if r.null() {
		return nil
	}
	cached := int64(0)
	r.object(func(key []byte) {
		if string(key) == "cached_tokens" {
			cached = r.integer()
			return
		}
		r.skip()
	})
	return &cached
}

// integer reads a whole number; null is 0.
func (r *jsonReader) integer() int64 {
	if r.null() {
		return 0
	}
	text := r.number()
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		r.fail("%s is no whole number of 64 bits", abridged(string(text)))
	}
	return n
}

// room is the initial capacity of a list: its length by its commas, but no more than an honest list has.
func (r *jsonReader) room() int {
	const most = 1 << 12
	rest := r.text[r.at:]
	if end := bytes.IndexByte(rest, ']'); end >= 0 {
		rest = rest[:end]
	}
	return min(most, 1+bytes.Count(rest, []byte{','}))
}

// tokenIDs reads a list of whole numbers from 0 to 2^31-1; null is in no list, and is no list.
func (r *jsonReader) tokenIDs() []int32 {
	if r.null() {
		return nil
	}
	r.peek()
	ids := make([]int32, 0, r.room())
	r.list(func() {
		id, ok := r.tokenID()
		if !ok {
			r.fail("token id %d is %s", len(ids), r.here())
			return
		}
		ids = append(ids, id)
	})
	return ids
}

// tokenID reads one id, digit by digit, because a prompt has thousands. If the text is no id, it reads nothing.
func (r *jsonReader) tokenID() (id int32, ok bool) {
	r.peek()
	n, at := int64(0), r.at
	for ; at < len(r.text) && r.text[at] >= '0' && r.text[at] <= '9'; at++ {
		if n = 10*n + int64(r.text[at]-'0'); n > math.MaxInt32 {
			return 0, false
		}
	}
	if at == r.at || r.text[r.at] == '0' && at > r.at+1 {
		return 0, false
	}
	if at < len(r.text) && (r.text[at] == '.' || r.text[at] == 'e' || r.text[at] == 'E') {
		return 0, false
	}
	r.at = at
	return int32(n), true
}

// logprobs reads a list of numbers, none of them infinite; null is in no list, and an empty one.
func (r *jsonReader) logprobs() []float32 {
	probs := []float32{}
	if r.null() {
		return probs
	}
	r.peek()
	probs = make([]float32, 0, r.room())
	r.list(func() {
		r.peek()
		from := r.at
		text := r.number()
		v, err := strconv.ParseFloat(string(text), 64)
		if err != nil || !(v >= minLogprob && v <= maxLogprob) {
			r.err, r.at = nil, from
			r.fail("logprob %d is %s", len(probs), r.here())
			return
		}
		probs = append(probs, float32(v))
	})
	return probs
}

// bounded is a list that is not read further than its most elements.
type bounded[T any] struct {
	most int
	list []T
}

// UnmarshalJSON reads the list, and refuses one that is too long.
func (l *bounded[T]) UnmarshalJSON(b []byte) error {
	l.list = nil // a second list under the same key replaces the first
	dec := json.NewDecoder(bytes.NewReader(b))
	if first, err := dec.Token(); err != nil || first != json.Delim('[') {
		return errors.New("not a list")
	}
	for dec.More() {
		if len(l.list) == l.most {
			return fmt.Errorf("a list of more than %d", l.most)
		}
		var one T
		if err := dec.Decode(&one); err != nil {
			return err
		}
		l.list = append(l.list, one)
	}
	return nil
}

// unreadable is the error for faulty JSON, without the library's long quotes of the answer.
func unreadable(err error) error { return errors.New(abridged(err.Error())) }
