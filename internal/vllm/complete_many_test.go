package vllm

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"

	"github.com/millrace/millrace/internal/rollout"
)

// three requests that may share a call.
func three() []rollout.Request {
	reqs := []rollout.Request{request(), request(), request()}
	for i := range reqs {
		reqs[i].Prompt = fmt.Sprintf("prompt %d", i)
		reqs[i].Seed = int64(i)
	}
	return reqs
}

// choiceJSON is one choice of an answer, with token ids that tell which prompt it is of.
func choiceJSON(index int, finish string) string {
	return fmt.Sprintf(`{"index":%d,"text":"t%d","logprobs":{"token_logprobs":[-0.5]},"finish_reason":%q,"token_ids":[%d],"prompt_token_ids":[%d,7]}`,
		index, index, finish, index, index)
}

func answerOf(choices ...string) string {
	list := ""
	for i, c := range choices {
		if i > 0 {
			list += ","
		}
		list += c
	}
	return `{"model":"demo-v3","choices":[` + list +
		`],"usage":{"prompt_tokens":6,"completion_tokens":3,"total_tokens":9,"prompt_tokens_details":{"cached_tokens":0}}}`
}

func TestCompleteManyIsOneCall(t *testing.T) {
	t.Parallel()
	var body map[string]any
	calls := 0
	c := engine(t, func(w http.ResponseWriter, r *http.Request) {
		calls++
		b, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(b, &body); err != nil {
			t.Error(err)
		}
		// in any order
		_, _ = io.WriteString(w, answerOf(choiceJSON(2, "stop"), choiceJSON(0, "length"), choiceJSON(1, "stop")))
	})
	answers, err := c.CompleteMany(t.Context(), three())
	if err != nil || calls != 1 {
		t.Fatalf("%d calls, %v", calls, err)
	}
	for i, a := range answers {
		if a.Err != nil || a.Completion.Text != fmt.Sprintf("t%d", i) ||
			!slices.Equal(a.Completion.TokenIDs, []int32{int32(i)}) ||
			!slices.Equal(a.Completion.PromptTokenIDs, []int32{int32(i), 7}) || a.Completion.Model != "demo-v3" ||
			a.Completion.CachedTokens != 0 {
			t.Errorf("answer %d is %+v", i, a)
		}
	}
	if prompts := fmt.Sprint(body["prompt"]); prompts != "[prompt 0 prompt 1 prompt 2]" {
		t.Errorf("asked for %s", prompts)
	}
	if seed, ok := body["seed"]; ok {
		t.Errorf("seed %v: equal prompts would get equal answers", seed)
	}
	if body["return_token_ids"] != true || body["logprobs"] != 0.0 || body["max_tokens"] != 120.0 {
		t.Errorf("asked with %v", body)
	}
}

func TestCompleteManyFailsOneByOne(t *testing.T) {
	t.Parallel()
	answers, err := engine(t, answering(200, answerOf(choiceJSON(0, "stop"), choiceJSON(1, "abort"),
		choiceJSON(2, "error")))).CompleteMany(t.Context(), three())
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []rollout.Code{"", rollout.CodeAborted, rollout.CodeBadAnswer} {
		if got := rollout.CodeOf(answers[i].Err); got != want {
			t.Errorf("request %d: %v, want code %q", i, answers[i].Err, want)
		}
	}
}

func TestCompleteManyTrustsNoIndex(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"too few":   answerOf(choiceJSON(0, "stop"), choiceJSON(1, "stop")),
		"twice":     answerOf(choiceJSON(0, "stop"), choiceJSON(1, "stop"), choiceJSON(1, "stop")),
		"too large": answerOf(choiceJSON(0, "stop"), choiceJSON(1, "stop"), choiceJSON(3, "stop")),
		"negative":  answerOf(choiceJSON(0, "stop"), choiceJSON(1, "stop"), choiceJSON(-1, "stop")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := engine(t, answering(200, body)).CompleteMany(t.Context(),
				three()); rollout.CodeOf(err) != rollout.CodeBadAnswer {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestCompleteManyOfDifferentKinds(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*rollout.Request){
		"model":    func(r *rollout.Request) { r.Model = "demo-v4" },
		"sampling": func(r *rollout.Request) { r.Sampling.Temperature = 0.5 },
		"stop":     func(r *rollout.Request) { r.Stop = nil },
		"constraint": func(r *rollout.Request) {
			r.Constraint = rollout.Constraint{Kind: rollout.RegexConstraint, Pattern: "a"}
		},
		"max tokens": func(r *rollout.Request) { r.Sampling.MaxTokens = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reqs := three()
			change(&reqs[2])
			c := engine(t, func(http.ResponseWriter, *http.Request) { t.Error("the call was made") })
			if _, err := c.CompleteMany(t.Context(), reqs); rollout.CodeOf(err) != rollout.CodeBadRequest {
				t.Errorf("got %v", err)
			}
		})
	}
}
