package crashtest_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/trials/crashtest"
)

// What is well is told as such: runs of three shapes whose trainers hardly wait are trained for MILLRACE_HEALTHY, and
// neither the API, `millrace status`, `millrace run list` nor a page ever says that anything needs somebody.
func TestHealthyRunsNeedNobody(t *testing.T) {
	lasts, err := time.ParseDuration(os.Getenv("MILLRACE_HEALTHY"))
	if err != nil {
		t.Skip("takes an hour: make test-healthy runs it")
	}
	var cfg crashtest.Config
	programs(t, &cfg)
	s := startWatched(t, cfg, t.TempDir())
	s.millrace("run", "delete", "going", "--force") // nobody trains it
	rows := filepath.Join(s.dir, "rows.jsonl")
	s.must(os.WriteFile(rows, []byte(`{"question": "a low digit", "answer": "[0-4]"}`+"\n"+
		`{"question": "a high digit", "answer": "[5-9]"}`+"\n"), 0o600))
	for name, keys := range map[string]string{
		"powers": "environment: {kind: diplomacy, horizon_years: 1, train: all}\ngroup: {samples: 3}\n" +
			"sampling: {temperature: 0.8, max_tokens: 120}\n",
		"board": "environment: {kind: tictactoe, opponent: random}\ngroup: {samples: 8}\n" +
			"sampling: {temperature: 1.0, max_tokens: 4}\nevaluate: {every: 100, against: [random], games: 32}\n",
		"answers": "environment: {kind: prompts, dataset: " + rows + ", template: \"{question}\", constraint: \"[0-9]\",\n" +
			"  verifier: {kind: regex}}\ngroup: {samples: 8}\nsampling: {temperature: 1.0, max_tokens: 4}\n",
	} {
		file := filepath.Join(s.dir, name+".yaml")
		s.must(os.WriteFile(file, fmt.Appendf(nil, "name: %s\nmodel: Qwen/Qwen2.5-7B-Instruct\nsteps: 100000\n%s"+
			"buffer: {depth: 2, groups_per_step: 4}\nadapters: {path_prefix: %s/adapters}\n", name, keys, s.dir), 0o600))
		if out := s.millrace("run", "start", "-f", file); strings.Contains(out, "millrace: ") {
			t.Fatal(out)
		}
		s.must(s.Spawn(name+"-trainer", true, cfg.Millrace, "trainer", "demo", name, "--server", "http://"+s.Server,
			"--speed", "1", "--load", "0.1s", "--ref-logprobs", "0s", "--train", "20s", "--publish", "0.1s"))
	}
	looks := 0
	for end := time.Now().Add(lasts); time.Now().Before(end); looks++ {
		if err := s.quiet(); err != nil {
			t.Errorf("%s, after %d looks: %v", time.Now().Format(time.TimeOnly), looks, err)
		}
		select {
		case <-t.Context().Done():
			return
		case <-time.After(5 * time.Second):
		}
	}
	t.Logf("%d looks; at the end: %s", looks, s.millrace("run", "list"))
}

// quiet reports the first face that says that something needs somebody.
func (s *watched) quiet() error {
	status, err := s.status()
	if err != nil {
		return err
	}
	for _, p := range status.Problems {
		if p.Urgent() {
			text, _ := json.Marshal(p)
			return fmt.Errorf("the API: %s", text)
		}
	}
	list, top, said := s.millrace("run", "list"), s.millrace("top", "--once"), s.millrace("status")
	page, err := s.page()
	if err != nil {
		return err
	}
	for face, text := range map[string]string{"run list": list, "top": top, "status": said, "the page": page} {
		for _, red := range []string{"slow: ", "stuck: ", "SLOW ", "STUCK ", "Needs you", "PROBLEM"} {
			if strings.Contains(text, red) {
				return fmt.Errorf("%s: %s", face, text)
			}
		}
	}
	return nil
}
