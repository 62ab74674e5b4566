package dispatch

import (
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
)

// Weights and first guesses, in tokens.
const (
	// An output token occupies an engine longer than a prompt token, which is read together with many others.
	outputWeight = 2

	firstPromptGuess = 440
	firstOutputGuess = 24
	guessShift       = 4 // a new answer moves the guess by 1/16 of the difference
)

// run is the scheduler's state of one training run.
type run struct {
	name  rollout.RunName
	rules runspec.Dispatch
	lanes []*lane // those with requests queued
	spare *lane   // emptied last, to be used again
	over  bool    // forgotten when nothing is held

	held   int // queued and in flight
	queued int

	// service is the work done for the run so far, in weighted tokens: the run with the least is served first. A run
	// that had nothing queued keeps no credit from that time: enqueue lifts it to Scheduler.level.
	service int64
	last    rollout.EngineID // of the last dispatch; round robin goes on behind it

	places   places
	servedAt time.Time // its latest answer
	took     spans     // of answered requests, from their dispatch

	stuck uint64 // the round in which nothing of it can be sent

	lastHome rollout.EngineID // in whose queue a request was put last

	// Means of recent answers, in 1/16 tokens, so that small differences are not lost to rounding.
	promptGuess, outputGuess int64
}

func newRun(name rollout.RunName) *run {
	return &run{name: name, promptGuess: firstPromptGuess << guessShift, outputGuess: firstOutputGuess << guessShift}
}

// runNamed finds a run or starts keeping it.
func (s *Scheduler) runNamed(name rollout.RunName) *run {
	i, ok := slices.BinarySearchFunc(s.runs, name, func(r *run, n rollout.RunName) int {
		return strings.Compare(string(r.name), string(n))
	})
	if !ok {
		s.runs = slices.Insert(s.runs, i, newRun(name))
	}
	return s.runs[i]
}

func (s *Scheduler) forgetIfOver(r *run) {
	if r.over && r.held == 0 {
		s.forgetStandings(r)
		s.runs = slices.DeleteFunc(s.runs, func(o *run) bool { return o == r })
	}
}

// follow takes new rules, and places what is queued by them.
func (s *Scheduler) follow(r *run, rules runspec.Dispatch) {
	r.over = false
	if r.rules == rules {
		return
	}
	r.rules = rules
	lanes := r.lanes
	r.lanes = nil
	for _, l := range lanes {
		s.relane(l)
	}
}

// lane finds the run's lane, or opens it.
func (r *run) lane(key laneKey) *lane {
	for _, l := range r.lanes {
		if l.laneKey == key {
			return l
		}
	}
	l := r.spare
	if l != nil && l.laneKey == key && len(l.servers) > 0 {
		l.stranded = time.Time{} // what it knows of its servers holds in their revision
	} else {
		l = &lane{laneKey: key, run: r}
	}
	r.spare = nil
	r.lanes = append(r.lanes, l)
	return l
}

func (r *run) dropLane(l *lane) {
	r.lanes = slices.DeleteFunc(r.lanes, func(o *lane) bool { return o == l })
	r.spare = l
}

// cost is the work that a request is expected to be, in weighted tokens.
func (r *run) cost(q *Request) int64 {
	prompt, output := r.expected(q)
	return max(1, int64(prompt)+outputWeight*int64(output))
}

// expected is a request's tokens as estimated by its caller, or else as answers were lately.
func (r *run) expected(q *Request) (prompt, output int) {
	prompt, output = q.PromptTokens, q.OutputTokens
	if prompt <= 0 {
		prompt = int(r.promptGuess >> guessShift)
	}
	if output <= 0 {
		output = int(r.outputGuess >> guessShift)
	}
	return prompt, output
}

// learn takes a good answer into the guesses.
func (r *run) learn(prompt, output int) {
	if prompt > 0 {
		r.promptGuess += int64(prompt) - r.promptGuess>>guessShift
	}
	if output > 0 {
		r.outputGuess += int64(output) - r.outputGuess>>guessShift
	}
}
