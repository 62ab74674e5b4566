package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/face/program"
)

// agentSpec is a run of 16 games; a program that falls silent loses its game soon.
const agentSpec = `
name: agents
model: Qwen/Qwen2.5-7B-Instruct
steps: 2
environment: {kind: external, lease: 4s}
group: {samples: 4}
buffer: {depth: 1, groups_per_step: 2}
sampling: {temperature: 1.0, max_tokens: 4}
timeouts: {completion: 20s, episode: 2m, heartbeat: 10s}
demo: {engines: 1, speed: 40, train: 5s}
`

// playsGame has the test binary be a program that knows nothing of Millrace but its environment: it asks the model
// once, and its reward is how long the answer is.
const playsGame = "test-agent"

func playTestGame() error {
	body, err := json.Marshal(map[string]any{"model": os.Getenv("MILLRACE_MODEL"), "prompt": "Say something:"})
	if err != nil {
		return err
	}
	req, err := http.NewRequest(http.MethodPost, os.Getenv("OPENAI_BASE_URL")+"/completions", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+os.Getenv("OPENAI_API_KEY"))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var said struct{ Choices []struct{ Text string } }
	if err := json.NewDecoder(resp.Body).Decode(&said); err != nil || len(said.Choices) == 0 {
		return fmt.Errorf("no answer: %w", err)
	}
	if file := os.Getenv("MILLRACE_TEST_HANGS"); file != "" {
		_ = os.WriteFile(file, nil, 0o600)
		time.Sleep(time.Hour)
	}
	_, err = fmt.Printf("{\"reward\": %d}\n", len(said.Choices[0].Text))
	return err
}

// A command that is killed loses its games to another one, which plays to the end of the run.
func TestProgramsPlayARun(t *testing.T) {
	requireTemporal(t)
	journal := filepath.Join(t.TempDir(), "trained.jsonl")
	dev := millrace(t, "dev", "--listen", "127.0.0.1:0", "--spec", writeSpec(t, agentSpec), "--exit", "--journal", journal)
	server, _ := dev.await(`API server on (http://\S+)`, 0)
	dev.await(`groups queued`, 0)

	hung := filepath.Join(t.TempDir(), "hung")
	t.Setenv("MILLRACE_TEST_HANGS", hung)
	first := millrace(t, "run", "play", "agents", "--server", server[1], "--games", "2", "--", os.Args[0], playsGame)
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(hung); err == nil {
			break
		}
		if time.Since(began) > awaitFor {
			t.Fatal("no program was started")
		}
	}
	_ = first.cmd.Process.Kill()
	<-first.done

	t.Setenv("MILLRACE_TEST_HANGS", "")
	second := millrace(t, "run", "play", "agents", "--server", server[1], "--games", "4", "-o", "json", "--", os.Args[0],
		playsGame)
	if code := second.exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	var tally program.Tally
	if err := json.Unmarshal(second.stdout.Bytes(), &tally); err != nil || tally.Played < 16 || tally.Failed > 0 {
		t.Errorf("%s: %v", second.stdout.String(), err)
	}
	if strings.Contains(second.said(), "mr-") {
		t.Error("a key is shown")
	}
	if code := dev.exit(); code != 0 {
		t.Errorf("dev: exit code %d", code)
	}
	checkJournal(t, readJournal(t, journal), 2, 2, 2*4)
}
