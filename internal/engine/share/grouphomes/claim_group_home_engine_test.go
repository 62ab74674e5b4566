package grouphomes_test

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/engine/share/grouphomes"
	"github.com/millrace/millrace/internal/rollout"
)

// TestWorkersAgree: the first proposal holds for all; a lost engine is replaced once; other parts of the group, and
// other groups, are none of its business; and all of it ends.
func TestWorkersAgree(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer rdb.Close()
	homes := grouphomes.New(rdb, "test")
	for _, tt := range []struct {
		group          rollout.GroupSeq
		part           int
		proposal, lost rollout.EngineID
		want           rollout.EngineID
	}{
		{7, 0, "a", "", "a"},
		{7, 0, "b", "", "a"},
		{7, 1, "b", "", "b"},
		{8, 0, "c", "", "c"},
		{7, 0, "c", "a", "c"},
		{7, 0, "b", "a", "c"}, // the other worker noticed it, too, a moment later
		{7, 1, "a", "", "b"},
	} {
		at, err := homes.Claim(t.Context(), rollout.GroupRef{Run: "r", Seq: tt.group}, tt.part, tt.proposal, tt.lost)
		if err != nil || at != tt.want {
			t.Errorf("%+v: %s, %v", tt, at, err)
		}
	}
	server.FastForward(2 * time.Hour)
	if keys := server.Keys(); len(keys) > 0 {
		t.Errorf("%v are left", keys)
	}
}
