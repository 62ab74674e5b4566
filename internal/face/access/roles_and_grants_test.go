package access_test

import (
	"testing"
	"time"

	"github.com/millrace/millrace/internal/face/access"
	"github.com/millrace/millrace/internal/rollout"
)

func TestAGrantCoversTheRunsThatItsPatternsMatch(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		grant access.Grant
		run   rollout.RunName
		want  bool
	}{
		{"operators ask for nothing", access.Grant{Role: access.Operator}, "any", true},
		{"none named", access.Grant{Role: access.Trainer}, "any", false},
		{"by its name", access.Grant{Role: access.Trainer, Runs: []string{"demo"}}, "demo", true},
		{"a name that only begins so", access.Grant{Role: access.Trainer, Runs: []string{"demo"}}, "demo-2", false},
		{"by a star", access.Grant{Role: access.Reader, Runs: []string{"a", "diplomacy-*"}}, "diplomacy-7b", true},
		{"a star elsewhere", access.Grant{Role: access.Reader, Runs: []string{"diplomacy-*"}}, "my-diplomacy-7b", false},
		{"all", access.Grant{Role: access.Reader, Runs: []string{"*"}}, "x", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := tt.grant.Covers(tt.run); got != tt.want {
				t.Errorf("covers %s: %v, want %v", tt.run, got, tt.want)
			}
		})
	}
}

func TestRolesIncludeTheLesser(t *testing.T) {
	t.Parallel()
	roles := access.Roles()
	for i, r := range roles {
		for j, other := range roles {
			if r.Includes(other) != (i >= j) {
				t.Errorf("%s includes %s: %v", r, other, r.Includes(other))
			}
		}
	}
	if access.Role("").Includes(access.Reader) || access.Operator.Includes("root") {
		t.Error("a role that is none includes, or is included")
	}
}

func TestTokensAreFoundByTheirHashes(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	fixed := access.Grant{Name: "fixed", Role: access.Operator, Hash: access.HashOf("one")}
	g := access.NewGrants(fixed)
	g.Replace([]access.Grant{
		{Name: "listed", Role: access.Reader, Hash: access.HashOf("two")},
		{Name: "over", Role: access.Reader, Hash: access.HashOf("three"), Expires: now},
	})
	for token, want := range map[string]string{"one": "fixed", "two": "listed", "three": "over", "four": "", "": ""} {
		grant, found, expired := g.Find(access.HashOf(token), now)
		if grant.Name != want || found != (want != "") || expired != (want == "over") {
			t.Errorf("token %q: %+v, %v, %v; want %q", token, grant, found, expired, want)
		}
	}
	g.Replace(nil)
	if _, found, _ := g.Find(access.HashOf("two"), now); found {
		t.Error("a grant that was taken back is found")
	}
	if _, found, _ := g.Find(access.HashOf("one"), now); !found {
		t.Error("a grant that stays is gone")
	}
	if h, err := access.ParseHash(access.HashOf("x").String()); err != nil || h != access.HashOf("x") {
		t.Errorf("a hash does not come back: %v", err)
	}
}
