package main

import (
	"strings"
	"testing"

	"github.com/millrace/millrace/config"
	"github.com/millrace/millrace/internal/kit/markdowntest"
)

// TestPageLiveKeys: the page lists the keys that running processes take up, as their rows say. Keys that are taken up
// alike share a row.
func TestPageLiveKeys(t *testing.T) {
	t.Parallel()
	type effect struct{ by, then string }
	var effects []effect
	keys := map[effect][]string{}
	for _, key := range config.LiveKeys() {
		by, then, ok := whoTakesUp(key.Path)
		if !ok {
			t.Errorf("%s is taken up by running processes, and this test does not know by which", key.Path)
		}
		e := effect{by, then}
		if keys[e] == nil {
			effects = append(effects, e)
		}
		keys[e] = append(keys[e], "`"+key.Path+"`")
	}
	table := markdowntest.Head("keys", "taken up by", "then")
	for _, e := range effects {
		table += markdowntest.Row(strings.Join(keys[e], ", "), e.by, e.then)
	}
	markdowntest.Hold(t, "../../docs/deploy.md", "live keys", table)
}

func whoTakesUp(key string) (by, then string, ok bool) {
	switch {
	case key == "limits.engines":
		return "servers", "an engine more is refused; those that are there stay", true
	case strings.HasPrefix(key, "limits."):
		return "servers", "holds for calls and connections from then on; those that are there stay", true
	case key == "auth.trusted_proxies":
		return "servers", "holds for requests from then on", true
	case key == "log_level":
		return "servers and workers", "", true
	case key == "engines":
		return "servers and workers", "new ones join; whoever is listed is sent the engines' key", true
	case key == "engines_from":
		return "workers", "the fleet follows the other list; engines of the one before stay", true
	case strings.HasPrefix(key, "scaling."):
		return "workers that have the section", "decided by within seconds; what `millrace engine scaling` has set is dropped", true
	case key == "retention", key == "retention_runs":
		return "workers, and servers for what they show", "holds for runs that are over already, too", true
	}
	return "", "", false
}
