package promptset

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/millrace/millrace/internal/game/episode"
	"github.com/millrace/millrace/internal/game/prompting"
	"github.com/millrace/millrace/internal/game/specurl"
	"github.com/millrace/millrace/internal/rollout"
)

// Verifier says which completions are right. A right one has reward 1, a wrong one 0; a webhook may give any number.
type Verifier struct {
	// Kind is exact (the answer's text), numeric (its number), regex (a row's answer is a regular expression that the
	// completion matches), judge (a fixed policy answers yes) or webhook (a program that is asked over HTTP).
	Kind string `json:"kind"`
	// Answer is the row's field with the right answer.
	Answer string `json:"answer"`
	// Extract is a regular expression that finds the answer in a completion: its last match, and of that the first
	// group if it has one.
	Extract string `json:"extract"`
	// Tolerance is how far a number may be off, as a share of the right one.
	Tolerance float64 `json:"tolerance"`
	// Policy is the run's fixed policy that judges, and Question what it is asked, with the fields prompt, answer and
	// text, the completion, in braces.
	Policy   string `json:"policy"`
	Question string `json:"question"`
	// URL is the webhook's.
	URL string `json:"url"`

	extract *regexp.Regexp
}

// The kinds of verifiers.
const (
	exact   = "exact"
	numeric = "numeric"
	regex   = "regex"
	judge   = "judge"
	webhook = "webhook"
)

// What a judge may answer.
const (
	yes = "yes"
	no  = "no"
)

const defaultQuestion = "Question: {prompt}\nReference answer: {answer}\nGiven answer: {text}\n\n" +
	"Is the given answer right? Answer yes or no: "

func (v *Verifier) complete() {
	v.Kind = cmp.Or(v.Kind, exact)
	v.Answer = cmp.Or(v.Answer, "answer")
	v.Question = cmp.Or(v.Question, defaultQuestion)
}

// asks reports whether somebody is asked, once the learner has answered.
func (v *Verifier) asks() bool { return v.Kind == judge || v.Kind == webhook }

func (v *Verifier) validate() (err error) {
	kinds := []string{exact, numeric, regex, judge, webhook}
	switch {
	case !slices.Contains(kinds, v.Kind):
		return fmt.Errorf("verifier.kind: %q is none of %s", v.Kind, strings.Join(kinds, ", "))
	case v.Kind == judge && v.Policy == "":
		return errors.New("verifier.policy: is missing: which of the run's policies judges")
	case v.Kind != judge && v.Policy != "":
		return fmt.Errorf("verifier.policy: is of kind judge, and this one is %s", v.Kind)
	case v.Kind != webhook && v.URL != "":
		return fmt.Errorf("verifier.url: is of kind webhook, and this one is %s", v.Kind)
	case v.Kind == webhook && specurl.Check(v.URL) != nil:
		return fmt.Errorf("verifier.url: %q %w", v.URL, specurl.Check(v.URL))
	case v.Kind != numeric && v.Tolerance != 0:
		return fmt.Errorf("verifier.tolerance: is of kind numeric, and this one is %s", v.Kind)
	case !(v.Tolerance >= 0 && v.Tolerance < 1):
		return fmt.Errorf("verifier.tolerance: %g is not within 0 and 1", v.Tolerance)
	}
	if v.extract, err = regexp.Compile(v.Extract); err != nil {
		return fmt.Errorf("verifier.extract: %w", err)
	}
	return nil
}

// verify reports whether a completion is right, and whether it has anything that could be.
func (v *Verifier) verify(text string, answers []string) (right, parsed bool) {
	if text, parsed = prompting.Extracted(v.extract, text); !parsed {
		return false, false
	}
	var given float64
	if v.Kind == numeric {
		if given, parsed = lastNumber(text); !parsed {
			return false, false
		}
	}
	return slices.ContainsFunc(answers, func(answer string) bool {
		switch v.Kind {
		case numeric:
			want, ok := lastNumber(answer)
			// A billionth is what writing a number in decimals costs.
			return ok && math.Abs(given-want) <= max(v.Tolerance, 1e-9)*math.Abs(want)
		case regex:
			want, err := regexp.Compile(answer)
			return err == nil && want.MatchString(text)
		default:
			return text == strings.TrimSpace(answer)
		}
	}), true
}

var number = regexp.MustCompile(`[-+]?(\d[\d,]*(\.\d+)?|\.\d+)([eE][-+]?\d+)?`)

// lastNumber is the last number in a text; commas between digits are left out, as in 1,234.5.
func lastNumber(text string) (float64, bool) {
	all := number.FindAllString(text, -1)
	if len(all) == 0 {
		return 0, false
	}
	n, err := strconv.ParseFloat(strings.ReplaceAll(all[len(all)-1], ",", ""), 64)
	return n, err == nil
}

// judged reads the judge's answer. A model elsewhere is held to no choice, and may write "Yes." for yes.
func judged(text string) (right, parsed bool) {
	said := strings.ToLower(strings.TrimFunc(text, func(r rune) bool { return !unicode.IsLetter(r) }))
	return said == yes, said == yes || said == no
}

// question asks the judge.
func (v *Verifier) question(p *played) episode.Prompt {
	prompt := p.Prompt
	for _, m := range p.Messages {
		prompt += m.Role + ": " + m.Content + "\n"
	}
	text := strings.NewReplacer("{prompt}", prompt, "{answer}", strings.Join(p.Answers, " or "), "{text}", *p.Text).
		Replace(v.Question)
	return episode.Prompt{Agent: judge, Text: text, Policy: v.Policy, MaxTokens: 4,
		Constraint: rollout.Constraint{Kind: rollout.ChoiceConstraint, Choices: []string{yes, no}}}
}
