package program

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/face/api"
)

func game() *Game {
	return &Game{api.LeasedGame{Episode: "3-1", BaseURL: "http://s/g", OpenAI: "http://s/g/v1", APIKey: "mr-key",
		Model: "m"}, []byte("{\"scenario\": {\"seed\": 7}}\n")}
}

// TestProcess: what a program is told, what is shown of what it writes, and what comes of its end.
func TestProcess(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, script string
		how          How
		reason       string
		shown        []string
	}{
		{"a reward", `echo begun; echo '{"reward": 2}'; echo "key mr-key" >&2`, Played, "",
			[]string{"begun", "key ...", `{"reward": 2}`}},
		{"its names", `echo "$OPENAI_BASE_URL $OPENAI_API_KEY $ANTHROPIC_BASE_URL $MILLRACE_MODEL $MILLRACE_GAME"
			echo "[$MILLRACE_TOKEN$ANTHROPIC_AUTH_TOKEN] $OTHER"; [ "$ANTHROPIC_API_KEY" = mr-key ] && echo '{"reward": 1}'`, Played, "",
			[]string{"[] kept", `http://s/g/v1 ... http://s/g m {"scenario": {"seed": 7}}`, `{"reward": 1}`}},
		{"without an end of line", `printf '{"reward": 1}'`, Played, "", []string{`{"reward": 1}`}},
		{"a failure", `echo oh >&2; echo no >&2; exit 4`, Failed, "exit status 4: oh\nno", []string{"no", "oh"}},
		{"killed", `kill -9 $$`, Left, "signal: killed", nil},
		{"what it leaves is killed", `sleep 600 & echo '{"reward": 1}'`, Played, "", []string{`{"reward": 1}`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var shown []string
			p := &Process{Args: []string{"sh", "-c", tt.script}, Show: func(_ *Game, line string) {
				mu.Lock()
				defer mu.Unlock()
				shown = append(shown, line)
			}, Env: append(os.Environ(), "MILLRACE_TOKEN=secret", "ANTHROPIC_AUTH_TOKEN=secret", "OPENAI_API_KEY=mine",
				"OTHER=kept")}
			e := p.Play(t.Context(), game())
			slices.Sort(shown)
			if e.How != tt.how || e.Reason != tt.reason || !slices.Equal(shown, tt.shown) {
				t.Errorf("%+v, shown %q", e, shown)
			}
		})
	}
}

// TestProcessIsEnded: with all that it has started, when its game is over.
func TestProcessIsEnded(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "child")
	ctx, end := context.WithCancel(t.Context())
	p := &Process{Args: []string{"sh", "-c", `sleep 600 & echo $! > "$0"; echo ready; wait`, file}, Env: os.Environ(),
		Show: func(*Game, string) { end() }}
	if e := p.Play(ctx, game()); e.How != Left || e.Reason != "signal: terminated" {
		t.Errorf("%+v", e)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	// Until the kernel has ended it, and whoever reaps orphans here has done so.
	for stat := "S"; stat != "" && !strings.Contains(stat, ") Z "); time.Sleep(10 * time.Millisecond) {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // there is none of a process that is gone
		stat = string(b)
	}
}
