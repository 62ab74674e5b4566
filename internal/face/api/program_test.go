package api_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/game/external"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/store/mailbox"
)

// A program whose game is played no more hears so at once, if its group is over, and is to ask again if it is not: a
// worker may have died.
func TestProgramHearsThatItsGameIsGone(t *testing.T) {
	t.Parallel()
	mail := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: mail.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	box := mailbox.New(rdb, "")
	f := serve(t, func(_ *api.Config, d *api.Deps) { d.Mail = box })
	played := spec()
	played.Environment = runspec.Environment{Kind: "external"}
	body, err := json.Marshal(played)
	if err != nil {
		t.Fatal(err)
	}
	f.want(f.do("POST", "/v1/runs", string(body)), 201)
	lease := func(seq int) (path, key string) {
		ref := rollout.EpisodeRef{GroupRef: rollout.GroupRef{Run: "demo", Seq: rollout.GroupSeq(seq)}}
		if _, err := box.Look(t.Context(), external.Attempt{EpisodeRef: ref}, []byte(`{}`)); err != nil {
			t.Fatal(err)
		}
		var game api.LeasedGame
		f.want(f.do("POST", "/v1/runs/demo/episodes/lease?wait=10s", ""), 200).into(&game)
		return game.BaseURL[len(f.url):], game.APIKey
	}
	inPlay, key := lease(0)
	if _, err := f.store.Queue(t.Context(), group(0).Ref, []byte("s"), 0, time.Now()); err != nil {
		t.Fatal(err)
	}
	over, other := lease(1)
	f.ready(1)
	for seq := range 2 { // their workers were seen last in another time
		if _, err := mail.ZAdd("millrace:{demo}:external:seen", 1, fmt.Sprintf("%d-0", seq)); err != nil {
			t.Fatal(err)
		}
	}
	f.want(f.do("POST", inPlay+"/heartbeat", "", "X-Api-Key", key), 200)
	for _, path := range []string{"/heartbeat", "/v1/completions", "/fail"} {
		if a := f.do("POST", over+path, `{"reason": "x"}`, "X-Api-Key", other); a.status != 410 {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
}
