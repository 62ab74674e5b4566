package engineprofile

import "fmt"

// Setting is requests that are sent at once, all of about the same length.
type Setting struct {
	What    string // is measured
	Batch   int
	Prompt  int // tokens that each prompt should have
	Output  int // tokens
	Less    int // if set: the time is the difference to the same with so many output tokens
	Adapter bool
}

func (s *Setting) describe() string {
	return fmt.Sprintf("%d at once of %d prompt tokens", s.Batch, s.Prompt)
}

// plan is the settings: prefill by length, decode by batch, and decode by context.
func (c Config) plan() []Setting {
	var all []Setting
	for _, prompt := range []int{32, 64, 128, 256, 384, 512, 1024, 2048, 4096, 8192, 16384, 32768} {
		if prompt <= c.LongestPrompt {
			all = append(all, Setting{What: "prefill", Batch: 1, Prompt: prompt, Output: 1})
		}
	}
	for batch := 1; batch <= c.MaxBatch; batch *= 2 {
		all = append(all, Setting{What: "decode", Batch: batch, Prompt: 32, Output: 80, Less: 16})
	}
	// The shorter answer is long enough that all prompts are computed before the first request ends.
	for _, prompt := range []int{2048, 4096} {
		if prompt <= c.LongestPrompt {
			all = append(all, Setting{What: "context", Batch: min(16, c.MaxBatch), Prompt: prompt, Output: 160, Less: 64})
		}
	}
	return all
}

// adapterPlan is the settings that are measured again with an adapter.
func (c Config) adapterPlan() []Setting {
	var all []Setting
	for _, s := range c.plan() {
		if s.What == "prefill" && s.Prompt == 2048 || s.What == "decode" && (s.Batch == 1 || s.Batch == 8 || s.Batch == 32) {
			s.Adapter = true
			all = append(all, s)
		}
	}
	return all
}
