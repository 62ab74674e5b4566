package server

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/game/gamelist"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	"github.com/millrace/millrace/internal/store/eventstore"
)

// TestGamesAndTurnsOverTheAPI: games of a real buffer, finished and committed, in play and failed, with their rewards
// and turns; what an event tells later is in the next answer.
func TestGamesAndTurnsOverTheAPI(t *testing.T) {
	t.Parallel()
	s := serveAPI(t, "", nil)
	buffer, rdb := s.store(), redis.NewClient(&redis.Options{Addr: s.redis.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	s.open(buffer, "demo")
	group := rollout.GroupRef{Run: "demo", Seq: 0}
	game := rollout.EpisodeRef{GroupRef: group, Sample: 0}
	turn := func(phase, text string) rollout.Turn {
		return rollout.Turn{Phase: phase, PromptTokenIDs: []int32{1, 2}, TokenIDs: []int32{7}, Logprobs: []float32{-0.5},
			PolicyVersion: 3, Engine: "a", FinishReason: "stop", Text: text}
	}
	episode := rollout.Episode{Ref: game, Phases: 2, Attempts: 1, StartedAt: time.Unix(1, 0), FinishedAt: time.Unix(9, 0),
		Trajectories: []rollout.Trajectory{
			{ID: "demo/0/0/X", Agent: "X", Reward: 1, Turns: []rollout.Turn{turn("one", "\x1b[31mA"), turn("three", "C")}},
			{ID: "demo/0/0/O", Agent: "O", Reward: 0, Turns: []rollout.Turn{turn("one", "a"), turn("two", "b")}},
		}}
	if err := buffer.SaveEpisode(t.Context(), game, 1, episode, []byte(`{"moves":[1]}`)); err != nil {
		t.Fatal(err)
	}
	game.Sample = 1
	events := store.New(rdb, "millrace", store.Limits{})
	events.Emit(telemetry.Event{At: time.Unix(5, 0), Run: "demo", Key: "a", Body: telemetry.EpisodeFailed{
		Ref: game, Code: "timeout", Failure: "no answer", Attempt: 1, Final: true}})
	events.Close()

	var page gamelist.Page
	s.read("/v1/runs/demo/games?sort=reward", &page)
	if page.Total != 2 || page.Games[0].Name != "demo/0/0" || *page.Games[0].Reward != 0.5 || !page.Games[0].Kept ||
		*page.Games[0].MinVersion != 3 || page.Games[1].Code != "timeout" || page.Games[1].Failure != "no answer" {
		t.Errorf("%+v", page)
	}
	s.read("/v1/runs/demo/games?code=any&limit=1", &page)
	if page.Total != 1 || page.Games[0].Name != "demo/0/1" {
		t.Errorf("%+v", page)
	}
	s.want(http.StatusUnprocessableEntity, "GET", "/v1/runs/demo/games?sort=beauty", "", "")
	s.want(http.StatusNotFound, "GET", "/v1/runs/nobody/games", "", "")

	var turns gamelist.Turns
	s.read("/v1/runs/demo/games/0/0/turns", &turns)
	var order []string
	for _, t := range turns.Turns {
		order = append(order, t.Phase+t.Agent)
	}
	if got := strings.Join(order, " "); got != "oneX oneO twoO threeX" && got != "oneX oneO threeX twoO" {
		t.Errorf("turns are %s", got)
	}
	var one gamelist.Turn
	s.read("/v1/runs/demo/games/0/0/turns/0", &one)
	if one.Text != "\x1b[31mA" || len(one.Sampled) != 1 || one.Sampled[0].Logprob != -0.5 || one.Prompt != nil ||
		!strings.Contains(one.NoPrompt, "no engine") {
		t.Errorf("%+v", one)
	}
	s.want(http.StatusNotFound, "GET", "/v1/runs/demo/games/0/0/turns/9", "", "")
	s.want(http.StatusNotFound, "GET", "/v1/runs/demo/games/0/5/turns", "", "")
}

// read gets a document.
func (s *served) read(path string, to any) {
	s.t.Helper()
	got := s.want(http.StatusOK, "GET", path, "", "")
	if err := json.Unmarshal([]byte(got.body), to); err != nil {
		s.t.Fatalf("%s: %v", got.body, err)
	}
}
