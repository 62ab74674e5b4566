package vllm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/millrace/millrace/internal/rollout"
)

// answer is what is read of a completion's answer; everything else in it is skipped. Reading it takes a few times the
// memory of its bytes at most, whatever they are.
type answer struct {
	Model   string          `json:"model"`
	Choices bounded[choice] `json:"choices"`
	Usage   *usage          `json:"usage"`
}

type usage struct {
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
	Details    *struct {
		Cached int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

type choice struct {
	Index          int      `json:"index"`
	Text           *string  `json:"text"`
	FinishReason   string   `json:"finish_reason"`
	TokenIDs       tokenIDs `json:"token_ids"`
	PromptTokenIDs tokenIDs `json:"prompt_token_ids"`
	Logprobs       *struct {
		Token logprobs `json:"token_logprobs"`
	} `json:"logprobs"`
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

// tokenIDs is a list of whole numbers from 0 to 2^31-1; null is in no list, and is no list.
type tokenIDs []int32

// UnmarshalJSON reads the list.
func (t *tokenIDs) UnmarshalJSON(b []byte) error {
	*t = nil
	return eachNumber(b, func(n int, text []byte) error {
		id, ok := tokenID(text)
		if !ok {
			return fmt.Errorf("token id %d is %s", len(*t), abridged(string(text)))
		}
		if *t == nil {
			*t = make([]int32, 0, n)
		}
		*t = append(*t, id)
		return nil
	})
}

// tokenID reads one id, digit by digit: a prompt has thousands.
func tokenID(digits []byte) (id int32, ok bool) {
	n := int64(0)
	for _, d := range digits {
		if d < '0' || d > '9' || n > math.MaxInt32 {
			return 0, false
		}
		n = 10*n + int64(d-'0')
	}
	return int32(n), len(digits) > 0 && n <= math.MaxInt32
}

// logprobs is a list of numbers, none of them infinite.
type logprobs []float32

// UnmarshalJSON reads the list.
func (l *logprobs) UnmarshalJSON(b []byte) error {
	*l = nil
	return eachNumber(b, func(n int, text []byte) error {
		v, err := strconv.ParseFloat(string(text), 64)
		if err != nil || !(v >= minLogprob && v <= maxLogprob) {
			return fmt.Errorf("logprob %d is %s", len(*l), abridged(string(text)))
		}
		if *l == nil {
			*l = make([]float32, 0, n)
		}
		*l = append(*l, float32(v))
		return nil
	})
}

// eachNumber calls do with every element of a JSON list, in order, and with how many there are. The elements of a
// list of anything but numbers come in pieces that are no numbers.
func eachNumber(list []byte, do func(n int, text []byte) error) error {
	list = bytes.TrimSpace(list)
	if string(list) == "null" {
		return nil
	}
	if len(list) < 2 || list[0] != '[' {
		return errors.New("not a list")
	}
	list = bytes.TrimSpace(list[1 : len(list)-1])
	if len(list) == 0 {
		return nil
	}
	n := 1 + bytes.Count(list, []byte{','})
	for rest, more := list, true; more; {
		var element []byte
		element, rest, more = bytes.Cut(rest, []byte{','})
		if err := do(n, bytes.TrimSpace(element)); err != nil {
			return err
		}
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

// answerLimit is the size in bytes that no honest answer to requests of one call exceeds.
func answerLimit(reqs []rollout.Request) int64 {
	limit := int64(wireBase)
	for i := range reqs {
		limit += wirePerToken * int64(reqs[i].Sampling.MaxTokens)
		limit += wirePerPromptToken * int64(mostPromptTokens(reqs[i].Prompt))
	}
	return min(limit, maxAnswerBytes)
}
