package vllm

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/millrace/millrace/internal/rollout"
)

// openAITransport is what go-openai sends its requests through. It adds a call's fields to the body, and reads the
// answer itself: once, within bounds, and with the parts that go-openai's types have no room for.
type openAITransport struct {
	http *http.Client
	key  func() string
	more func(context.Context, http.Header) // headers; nil: none
	room *semaphore.Weighted                // bytes of answers that are being read from this engine
}

// Do sends a completion with its call's fields. Answers other than 200 become a StatusError, so that
// no header or shape of error is lost on the way through the library.
func (h openAITransport) Do(req *http.Request) (*http.Response, error) {
	call, ok := req.Context().Value(callKey{}).(*call)
	if !ok {
		return nil, fmt.Errorf("%s %s: not a completion", req.Method, req.URL.Path)
	}
	if err := call.extend(req); err != nil {
		return nil, err
	}
	authorise(req, h.key())
	if h.more != nil {
		h.more(req.Context(), req.Header)
	}
	resp, err := h.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, statusError(req, resp)
	}
	err = readAnswer(req.Context(), h.room, resp, call.limit, func(body []byte) error {
		if err := call.answer.read(body); err != nil {
			return badAnswer("%w", unreadable(err))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(strings.NewReader("{}")) // all that the library is left to read
	return resp, nil
}

// readAnswer takes an answer of at most limit bytes in, of which read may keep nothing. However much an engine sends,
// and to however many requests at once, no more of it is held than its room; a good answer says its length, and takes
// no more room than that.
func readAnswer(ctx context.Context, room *semaphore.Weighted, resp *http.Response, limit int64,
	read func(body []byte) error) error {
	if resp.ContentLength > limit {
		return badAnswer("%d bytes; %d are enough for what was asked", resp.ContentLength, limit)
	}
	size := limit
	if resp.ContentLength >= 0 {
		size = resp.ContentLength
	}
	if err := room.Acquire(ctx, size); err != nil {
		return err
	}
	defer room.Release(size)
	body := bodies.Get().(*bytes.Buffer)
	defer keepBody(body)
	body.Reset()
	if _, err := body.ReadFrom(io.LimitReader(resp.Body, limit+1)); err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	if int64(body.Len()) > limit {
		return badAnswer("more than %d bytes, which are enough for what was asked", limit)
	}
	return read(body.Bytes())
}

// bodies are buffers for answers: no byte of an answer is used after it has been read.
var bodies = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// keepBody keeps a buffer for the next answer, unless this one was much larger than answers are.
func keepBody(b *bytes.Buffer) {
	const most = 256 << 10
	if b.Cap() <= most {
		bodies.Put(b)
	}
}

// authorise adds the API key, if there is one.
func authorise(req *http.Request, key string) {
	req.Header.Del("Authorization")
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
}

// The bounds of an answer's bytes on the wire, by what was asked. A token is its id, its log-probability, its place,
// and its text three times; 128 spaces are one token of many vocabularies. A token of a prompt is an id alone.
const (
	wireBase           = 32 << 10
	wirePerToken       = 1 << 10
	wirePerPromptToken = 16
)

// answerLimit is the size in bytes that no honest answer to a request exceeds.
func answerLimit(req *rollout.Request) int64 {
	limit := int64(wireBase) + wirePerToken*int64(req.Sampling.MaxTokens)
	limit += wirePerPromptToken * int64(mostPromptTokens(req))
	return min(limit, maxAnswerBytes)
}
