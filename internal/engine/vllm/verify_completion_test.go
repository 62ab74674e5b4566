package vllm

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/millrace/millrace/internal/rollout"
)

// completionJSON is an answer of an engine, with fields of the good one replaced.
func completionJSON(t *testing.T, swaps ...string) string {
	t.Helper()
	body := goodAnswer
	for i := 0; i < len(swaps); i += 2 {
		if !strings.Contains(body, swaps[i]) {
			t.Fatalf("%q is not in the good answer", swaps[i])
		}
		body = strings.Replace(body, swaps[i], swaps[i+1], 1)
	}
	return body
}

// list is a JSON list of n equal elements.
func list(element string, n int) string {
	return "[" + strings.TrimSuffix(strings.Repeat(element+",", n), ",") + "]"
}

const (
	idsAndLogprobs = `"token_logprobs":[-0.25,-9999.0]`
	ids            = `"token_ids":[32,151645]`
	countedTokens  = `"completion_tokens":2`
)

// TestCompleteHoldsTheAnswerAgainstTheRequest: what an engine says that a request of 120 tokens does not allow is a
// bad answer.
func TestCompleteHoldsTheAnswerAgainstTheRequest(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1024+2*256+1)
	for _, tt := range []struct {
		name string
		body string
	}{
		{"more tokens than max_tokens", completionJSON(t, ids, `"token_ids":`+list("7", 121), `[-0.25,-9999.0]`,
			list("-1", 121), countedTokens, `"completion_tokens":121`)},
		{"an id that is null", completionJSON(t, ids, `"token_ids":[32,null]`)},
		{"a prompt id that is null", completionJSON(t, `"prompt_token_ids":[1,2,3]`, `"prompt_token_ids":[1,null,3]`)},
		{"an id of no vocabulary", completionJSON(t, ids, `"token_ids":[32,2147483647]`)},
		{"a prompt id of no vocabulary", completionJSON(t, `"prompt_token_ids":[1,2,3]`, `"prompt_token_ids":[1,1048576,3]`)},
		{"an id beyond 32 bits", completionJSON(t, ids, `"token_ids":[32,4294967328]`)},
		{"an id that is text", completionJSON(t, ids, `"token_ids":[32,"151645"]`)},
		{"an id with a fraction", completionJSON(t, ids, `"token_ids":[32,1.5]`)},
		{"an id with an exponent", completionJSON(t, ids, `"token_ids":[32,1e3]`)},
		{"ids in a list of their own", completionJSON(t, ids, `"token_ids":[[32,151645]]`)},
		{"ids as an object", completionJSON(t, ids, `"token_ids":{"0":32}`)},
		{"a logprob below vLLM's least", completionJSON(t, idsAndLogprobs, `"token_logprobs":[-0.25,-1e38]`)},
		{"a logprob beyond every number", completionJSON(t, idsAndLogprobs, `"token_logprobs":[-0.25,-1e999]`)},
		{"a logprob that is text", completionJSON(t, idsAndLogprobs, `"token_logprobs":[-0.25,"-1"]`)},
		{"a logprob that is no number", completionJSON(t, idsAndLogprobs, `"token_logprobs":[-0.25,NaN]`)},
		{"a logprob too many", completionJSON(t, idsAndLogprobs, `"token_logprobs":[-0.25,-1,-1]`)},
		{"logprobs as an object", completionJSON(t, idsAndLogprobs, `"token_logprobs":{}`)},
		{"more text than tokens can have", completionJSON(t, `"text":"A PAR H"`, `"text":"`+long+`"`)},
		{"no text", completionJSON(t, `"text":"A PAR H"`, `"text":null`)},
		{"more prompt tokens than the prompt has bytes", completionJSON(t, `"prompt_token_ids":[1,2,3]`,
			`"prompt_token_ids":`+list("1", 200), `"prompt_tokens":3`, `"prompt_tokens":200`)},
		{"usage that counts other tokens", completionJSON(t, countedTokens, `"completion_tokens":1`)},
		{"usage that counts another prompt", completionJSON(t, `"prompt_tokens":3`, `"prompt_tokens":4`)},
		{"usage below zero", completionJSON(t, countedTokens, `"completion_tokens":-2`)},
		{"usage beyond every count", completionJSON(t, countedTokens, `"completion_tokens":1e300`)},
		{"two choices for one prompt", completionJSON(t, `"choices":[`, `"choices":[{"index":1},`)},
		{"choices without end", `{"model":"demo-v3","choices":` + list("{}", 10_000) + `}`},
		{"choices as an object", `{"model":"demo-v3","choices":{"0":{}}}`},
		{"an error with status 200", `{"error":{"message":"no","type":"BadRequestError","code":400}}`},
		{"JSON a hundred thousand deep", `{"model":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := engine(t, answering(200, tt.body)).Complete(t.Context(), request())
			code := rollout.CodeBadAnswer
			if strings.Contains(tt.body, `"error"`) {
				code = rollout.CodeWrongModel
			}
			wantFailure(t, err, rollout.Retryable, code)
			if len(err.Error()) > 400 {
				t.Errorf("the error quotes %d bytes", len(err.Error()))
			}
		})
	}
}

// TestCompleteTakesWhatRealEnginesAnswer: the odd shapes that vLLM has.
func TestCompleteTakesWhatRealEnginesAnswer(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		body string
	}{
		{"only the end of text", completionJSON(t, `"text":"A PAR H"`, `"text":""`, ids, `"token_ids":[151645]`,
			idsAndLogprobs, `"token_logprobs":[-0.1]`, countedTokens, `"completion_tokens":1`)},
		{"as long as allowed", completionJSON(t, ids, `"token_ids":`+list("7", 120), `[-0.25,-9999.0]`, list("-1", 120),
			countedTokens, `"completion_tokens":120`, `"finish_reason":"stop"`, `"finish_reason":"length"`)},
		{"ended by a full context", completionJSON(t, `"finish_reason":"stop"`, `"finish_reason":"length"`)},
		{"ended by a stop token", completionJSON(t, `"stop_reason":null`, `"stop_reason":151645`)},
		{"a logprob of minus infinity, as vLLM writes it",
			completionJSON(t, idsAndLogprobs, `"token_logprobs":[-9999.0,-9999]`)},
		{"a logprob rounded above zero", completionJSON(t, idsAndLogprobs, `"token_logprobs":[1e-6,-0.0]`)},
		{"the last id of a large vocabulary", completionJSON(t, ids, `"token_ids":[32,262143]`)},
		{"half of a surrogate pair", completionJSON(t, `"text":"A PAR H"`, `"text":"A \ud83d"`)},
		{"no usage", goodAnswer[:strings.Index(goodAnswer, ",\n\"usage\"")] + "}"},
		{"more cached tokens than the prompt has", completionJSON(t, `"cached_tokens":2`, `"cached_tokens":99`)},
		{"spaces and line breaks", completionJSON(t, ids, "\"token_ids\" : [ 32 ,\n\t151645 ]", idsAndLogprobs,
			`"token_logprobs": [ -0.25 , -1 ]`)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := engine(t, answering(200, tt.body)).Complete(t.Context(), request())
			if err != nil {
				t.Fatal(err)
			}
			if got.CachedTokens > len(got.PromptTokenIDs) {
				t.Errorf("%d of %d prompt tokens were cached", got.CachedTokens, len(got.PromptTokenIDs))
			}
		})
	}
}

// TestCompleteKnowsTheVocabulary: the run's own bound refuses as a request is refused, so that a run with a wrong
// one takes no engine from others.
func TestCompleteKnowsTheVocabulary(t *testing.T) {
	t.Parallel()
	c := engine(t, answering(200, goodAnswer))
	req := request()
	req.Sampling.Vocabulary = 151645
	_, err := c.Complete(t.Context(), req)
	wantFailure(t, err, rollout.Permanent, rollout.CodeBadRequest)
	req.Sampling.Vocabulary++
	if _, err := c.Complete(t.Context(), req); err != nil {
		t.Error(err)
	}
}

func TestCompleteWantsOneOfTheChoices(t *testing.T) {
	t.Parallel()
	c := engine(t, answering(200, goodAnswer))
	req := request()
	req.Stop, req.Constraint = nil,
		rollout.Constraint{Kind: rollout.ChoiceConstraint, Choices: []string{"A PAR H", "A PAR - BUR"}}
	if _, err := c.Complete(t.Context(), req); err != nil {
		t.Error(err)
	}
	req.Constraint.Choices = []string{"A PAR - PIC"}
	_, err := c.Complete(t.Context(), req)
	wantFailure(t, err, rollout.Retryable, rollout.CodeBadAnswer)
}

// endless is an engine whose answers never end; it counts what is read of them.
type endless struct {
	mu   sync.Mutex
	read int64
	most int64 // held by one answer
}

func (e *endless) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Header: http.Header{}, ContentLength: -1, Body: &endlessBody{of: e},
		Request: req}, nil
}

type endlessBody struct {
	of   *endless
	mine int64
}

func (b *endlessBody) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	b.of.mu.Lock()
	defer b.of.mu.Unlock()
	b.mine += int64(len(p))
	b.of.read += int64(len(p))
	b.of.most = max(b.of.most, b.mine)
	return len(p), nil
}

func (b *endlessBody) Close() error { return nil }

// TestAnAnswerIsReadNoFurtherThanItMayBeLong: in proportion to what was asked for, whatever the engine sends.
func TestAnAnswerIsReadNoFurtherThanItMayBeLong(t *testing.T) {
	t.Parallel()
	engine := &endless{}
	c, err := New(Config{BaseURL: "http://engine", HTTPClient: &http.Client{Transport: engine}})
	if err != nil {
		t.Fatal(err)
	}
	req := request()
	req.Sampling.MaxTokens = 4
	_, err = c.Complete(t.Context(), req)
	wantFailure(t, err, rollout.Retryable, rollout.CodeBadAnswer)
	if engine.read > 64<<10 {
		t.Errorf("%d bytes were read for 4 tokens", engine.read)
	}
}

// TestAnswersOfOneEngineShareTheirRoom: many large answers at once are read a few at a time.
func TestAnswersOfOneEngineShareTheirRoom(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var held, most int
	c, err := New(Config{BaseURL: "http://engine",
		HTTPClient: &http.Client{Transport: transport(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Header: http.Header{}, ContentLength: -1,
				Body: io.NopCloser(reader(func() (int, error) {
					mu.Lock()
					held++
					most = max(most, held)
					mu.Unlock()
					defer func() { mu.Lock(); held--; mu.Unlock() }()
					return 0, fmt.Errorf("cut: %w", io.ErrUnexpectedEOF)
				}))}, nil
		})}})
	if err != nil {
		t.Fatal(err)
	}
	req := request()
	req.Sampling.MaxTokens = 16 << 10 // some 16 MiB
	var calls sync.WaitGroup
	for range 50 {
		calls.Go(func() {
			_, err := c.Complete(t.Context(), req)
			wantFailure(t, err, rollout.Retryable, rollout.CodeBadAnswer)
		})
	}
	calls.Wait()
	if most > 2 {
		t.Errorf("%d answers of 16 MiB were read at once", most)
	}
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

type reader func() (int, error)

func (f reader) Read([]byte) (int, error) { return f() }
