package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/face/apiclient"
	"github.com/millrace/millrace/internal/kit/retry"
	"github.com/millrace/millrace/internal/rollout"
)

// longGames are long enough, some fifteen seconds each, for a worker to die in the middle of them.
const longGames = `
name: long
model: Qwen/Qwen2.5-7B-Instruct
steps: 1
environment: {kind: diplomacy, horizon_years: 5, train: all}
group: {samples: 3}
buffer: {depth: 1, groups_per_step: 2, max_staleness: 4, on_stale: drop}
sampling: {temperature: 0.8, max_tokens: 120}
adapters: {rank: 8, path_prefix: /adapters}
timeouts: {completion: 60s, episode: 15m, heartbeat: 10s}
demo: {engines: 1, engine_max_num_seqs: 64, speed: 1, load: 0s, ref_logprobs: 0s, train: 1s, publish: 0s}
`

// Games whose worker is killed go on in another process at their last finished phase: they end with more than one
// attempt, and what they are made of began before the kill.
func TestGamesGoOnWhereADeadWorkerStopped(t *testing.T) {
	requireTemporal(t)
	p := millrace(t, "dev", "--listen", "127.0.0.1:0", "--spec", writeSpec(t, longGames))
	server, _ := p.await(`API server on (http://\S+)`, 0)
	pid, n := p.await(`worker running, process (\d+)`, 0)
	client, err := apiclient.New(server[1], "", nil)
	if err != nil {
		t.Fatal(err)
	}
	err = retry.Within(t.Context(), awaitFor, 50*time.Millisecond, func(ctx context.Context) error {
		_, err := client.Game(ctx, rollout.EpisodeRef{GroupRef: rollout.GroupRef{Run: "long"}})
		return err // nothing of a game is kept until it has finished a phase
	})
	if err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	kill(t, pid[1])
	p.await(`the run is over`, n)

	resumed := 0
	for _, e := range finishedGames(t, server[1], "long") {
		began := e.At.Add(-time.Duration(e.DurationS * float64(time.Second)))
		if e.Attempts > 1 && began.Before(killed) {
			resumed++
		}
		if e.Attempts > 1 && began.After(killed) && e.Phases > 0 {
			t.Logf("game %v had not finished a phase when its worker died", e.Ref)
		}
	}
	if resumed == 0 {
		t.Error("no game of the killed worker went on where it was")
	}
	t.Logf("%d of 6 games went on in another process", resumed)
}

// finishedGame is the event of one finished game.
type finishedGame struct {
	At        time.Time       `json:"_time"`
	Ref       json.RawMessage `json:"ref"`
	DurationS float64         `json:"duration_s"`
	Phases    int             `json:"phases"`
	Attempts  int             `json:"attempts"`
}

func finishedGames(t *testing.T, server, run string) []finishedGame {
	t.Helper()
	resp, err := http.Get(fmt.Sprintf("%s/v1/runs/%s/events?limit=1000", server, run))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("events: status %d, %v: %.300s", resp.StatusCode, err, b)
	}
	var list struct {
		Events []struct {
			Kind string          `json:"kind"`
			Data json.RawMessage `json:"data"`
		} `json:"events"`
	}
	if err := json.Unmarshal(b, &list); err != nil {
		t.Fatal(err)
	}
	var games []finishedGame
	for _, e := range list.Events {
		if e.Kind != "rollout_complete" {
			continue
		}
		var g finishedGame
		if err := json.Unmarshal(e.Data, &g); err != nil || g.At.IsZero() {
			t.Fatalf("event %s: %v", e.Data, err)
		}
		games = append(games, g)
	}
	if len(games) == 0 {
		t.Fatal("no finished games among the events: " + strings.ReplaceAll(string(b[:min(len(b), 500)]), "\n", " "))
	}
	return games
}
