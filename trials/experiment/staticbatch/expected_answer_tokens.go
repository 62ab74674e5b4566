package staticbatch

import "cmp"

// guess is the tokens of an answer of which nothing is told: means of recent answers, in 1/16 tokens, so that small
// differences are not lost to rounding. It is the guess of the service's dispatcher.
type guess struct{ prompt, output int }

const (
	guessShift   = 4 // a new answer moves the guess by 1/16 of the difference
	outputWeight = 2 // of an output token, which occupies an engine longer than a prompt token
)

var firstGuess = guess{440 << guessShift, 24 << guessShift}

// expected is a request's tokens as told, or else as answers were lately.
func (g guess) expected(r *Request) (prompt, output int) {
	return cmp.Or(r.Prompt, g.prompt>>guessShift), cmp.Or(r.Output, g.output>>guessShift)
}

// cost is the work that a request is expected to be, in weighted tokens.
func (g guess) cost(r *Request) int {
	prompt, output := g.expected(r)
	return max(1, prompt+outputWeight*output)
}

// learn takes an answer into the guess.
func (g *guess) learn(prompt, output int) {
	if prompt > 0 {
		g.prompt += prompt - g.prompt>>guessShift
	}
	if output > 0 {
		g.output += output - g.output>>guessShift
	}
}
