package vllm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/millrace/millrace/internal/rollout"
)

// answer is what is read of a completion's answer; everything else in it is skipped.
type answer struct {
	Model   string     `json:"model"`
	Choices [2]*choice `json:"choices"` // one was asked for; the second is there to be noticed
	Usage   *usage     `json:"usage"`
}

type usage struct {
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
	Details    *struct {
		Cached int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"` // nil: not told
}

type choice struct {
	Index          int      `json:"index"`
	Text           *string  `json:"text"`
	FinishReason   string   `json:"finish_reason"`
	TokenIDs       tokenIDs `json:"token_ids"`
	PromptTokenIDs tokenIDs `json:"prompt_token_ids"`
	Logprobs       *struct {
		Tokens logprobs `json:"token_logprobs"`
	} `json:"logprobs"`
}

// tokenIDs is a list of whole numbers from 0 to 2^31-1.
type tokenIDs []int32

func (l *tokenIDs) UnmarshalJSON(list []byte) (err error) {
	*l, err = numbers(list, "token id", func(text string) (int32, bool) {
		id, err := strconv.ParseUint(text, 10, 31)
		return int32(id), err == nil
	})
	return err
}

// logprobs is a list of numbers, none of them infinite.
type logprobs []float32

func (l *logprobs) UnmarshalJSON(list []byte) (err error) {
	*l, err = numbers(list, "logprob", func(text string) (float32, bool) {
		v, err := strconv.ParseFloat(text, 64)
		return float32(v), err == nil && v >= minLogprob && v <= maxLogprob
	})
	return err
}

// numbers reads a list that is JSON, number by number: a prompt has thousands. Null is no list, and is in none, where
// encoding/json would read it as 0.
func numbers[T any](list []byte, what string, read func(text string) (T, bool)) ([]T, error) {
	if string(list) == "null" {
		return nil, nil
	}
	inner, isList := bytes.CutPrefix(list, []byte("["))
	inner = bytes.TrimSpace(bytes.TrimSuffix(inner, []byte("]")))
	if !isList {
		return nil, fmt.Errorf("no list of a %s each", what)
	}
	all := make([]T, 0, bytes.Count(inner, []byte(","))+1)
	if len(inner) == 0 {
		return all, nil
	}
	for text := range bytes.SplitSeq(inner, []byte(",")) {
		one, ok := read(string(bytes.TrimSpace(text)))
		if !ok {
			return nil, fmt.Errorf("%s %d is %s", what, len(all), abridged(string(text)))
		}
		all = append(all, one)
	}
	return all, nil
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

// unreadable is what may be said of a fault in an answer's JSON: the library's errors may quote the answer at length.
func unreadable(err error) error { return errors.New(abridged(err.Error())) }

// What an answer may weigh for each thing that was asked, in bytes on the wire. A token is its id, its
// log-probability, its place, and its text three times; 128 spaces are one token of many vocabularies. A token of a
// prompt is an id alone.
const (
	wireBase           = 32 << 10
	wirePerToken       = 1 << 10
	wirePerPromptToken = 16
)

// answerLimit is the size in bytes that no honest answer to a request exceeds.
func answerLimit(req *rollout.Request) int64 {
	limit := int64(wireBase) + wirePerToken*int64(req.Sampling.MaxTokens)
	limit += wirePerPromptToken * int64(mostPromptTokens(req.Prompt))
	return min(limit, maxAnswerBytes)
}
