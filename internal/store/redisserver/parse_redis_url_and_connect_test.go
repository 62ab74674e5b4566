package redisserver

import (
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ url, want, identity string }{
		{"redis://h:1/2", "h:1", "h:1\ntcp\n2"},
		{"rediss://user:secret@h:1", "h:1", "h:1\ntcp\n0"},
		{"unix:///run/redis.sock", "/run/redis.sock", "/run/redis.sock\nunix\n0"},
		{"redis+sentinel://a:1,b:2/3?master=m", "the master m of the Sentinels at a:1, b:2", "sentinel\nm\na:1 b:2\n3"},
		{"redis+sentinel://u:secret@a,b/0?master=m&sentinel_password=secret&pool_size=5",
			"the master m of the Sentinels at a:26379, b:26379", "sentinel\nm\na:26379 b:26379\n0"},
		{"redis://b:2,a:1?master_name=m", "the master m of the Sentinels at b:2, a:1", "sentinel\nm\na:1 b:2\n0"},
		{"redis+cluster://a:1,b:2", "the Cluster at a:1, b:2", "cluster\na:1 b:2"},
		{"rediss+cluster://u:secret@a:1", "the Cluster at a:1", "cluster\na:1"},
		{"redis://a:1,b:2,c:3/0", "the Cluster at a:1, b:2, c:3", "cluster\na:1 b:2 c:3"},
	} {
		a, err := Parse(tt.url)
		if err != nil {
			t.Errorf("%s: %v", tt.url, err)
			continue
		}
		if a.String() != tt.want || a.Identity() != tt.identity {
			t.Errorf("%s is %s, %q", tt.url, a, a.Identity())
		}
		_ = a.Connect().Close()
	}
	for url, why := range map[string]string{
		"h:1":                              "want redis://",
		"http://h:1":                       "http:// is no address",
		"redis+raft://h:1":                 "redis+raft:// is no address",
		"redis+sentinel://a:1,b:2":         "add ?master=NAME",
		"redis+cluster://a:1?master=m":     "leave master out",
		"redis+cluster://a:1/3":            "no database 3",
		"redis://":                         "no host",
		"redis+sentinel://a:1,,b?master=m": "no host",
		"redis://user:secret@h:x/0":        "cannot be read",
		"redis://h:1?master=m&nonsense=1":  "nonsense",
	} {
		_, err := Parse(url)
		if err == nil || !strings.Contains(err.Error(), why) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %q", url, err, why)
		}
	}
}

func TestParseTakesPasswordsToWhereTheyBelong(t *testing.T) {
	t.Parallel()
	a, err := Parse("rediss+sentinel://u:p@a:1,b:2/3?master=m&sentinel_username=su&sentinel_password=sp&read_timeout=2s")
	if err != nil {
		t.Fatal(err)
	}
	o := a.sentinel
	if o.Username != "u" || o.Password != "p" || o.SentinelUsername != "su" || o.SentinelPassword != "sp" || o.DB != 3 ||
		o.TLSConfig == nil || o.ReadTimeout != 2*time.Second || !o.ContextTimeoutEnabled {
		t.Errorf("%+v", o)
	}
}

func TestRedacted(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"redis://h:1/0":          "redis://h:1/0",
		"redis://:secret@h:1/0":  "redis://:xxxxx@h:1/0",
		"redis://u:s@cret@h:1/0": "redis://u:xxxxx@h:1/0",
		"redis+sentinel://u:secret@a:1,b:2/0?master=m&sentinel_password=secret": "redis+sentinel://u:xxxxx@a:1,b:2/0?" +
			"master=m&sentinel_password=xxxxx",
		"nonsense": "nonsense",
	} {
		if got := Redacted(url); got != want {
			t.Errorf("%s is shown as %s", url, got)
		}
	}
}
