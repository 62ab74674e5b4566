package config_test

import (
	"slices"
	"testing"

	"github.com/millrace/millrace/config"
	"github.com/millrace/millrace/worker/workerconfig"
)

func TestChangesOfTheConfiguration(t *testing.T) {
	t.Parallel()
	read := func(yaml string) config.Service {
		t.Helper()
		s, err := config.ReadService("service.yaml", []byte(yaml), func(string) string { return "" })
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	was := read("engines: [{url: 'http://a:8000'}]\nlimits: {runs: 3}\nretention: 1d\n")
	for _, tt := range []struct {
		name, yaml    string
		live, restart []string
	}{
		{"nothing", "engines: [{url: 'http://a:8000'}]\nlimits: {runs: 3}\nretention: 24h\n", nil, nil},
		{"bounds", "engines: [{url: 'http://a:8000'}]\nlimits: {runs: 4, streams: 5}\nretention: 1d\n",
			[]string{"limits.runs", "limits.streams"}, nil},
		{"engines, as one list", "engines: [{url: 'http://a:8000', max_in_flight: 7}]\nlimits: {runs: 3}\nretention: 1d\n",
			[]string{"engines"}, nil},
		{"keys that are left out have their defaults again", "{}", []string{"limits.runs", "retention", "engines"}, nil},
		{"both kinds", "engines: [{url: 'http://a:8000'}]\nlimits: {runs: 3}\nretention: 2d\nlisten: 127.0.0.1:1\n" +
			"redis: {prefix: other}\nengine_urls: {tls: [{engines: 'https://a:1', ca_file: /ca}]}\nlog_level: warn\n",
			[]string{"log_level", "retention"}, []string{"listen", "redis.prefix", "engine_urls.tls"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			next := read(tt.yaml)
			live, restart := was.Changes(next)
			if got := keys(live); !slices.Equal(got, tt.live) {
				t.Errorf("taken up: %v, want %v", got, tt.live)
			}
			if got := keys(restart); !slices.Equal(got, tt.restart) {
				t.Errorf("wait for a restart: %v, want %v", got, tt.restart)
			}
			taken := was.Take(next)
			if live, again := taken.Changes(next); len(live) > 0 || !slices.Equal(keys(again), tt.restart) {
				t.Errorf("after they were taken up %v and %v are left", live, again)
			}
			if old, _ := was.Changes(was.Take(was)); len(old) > 0 || was.Limits.Runs != 3 {
				t.Error("the configuration that was is changed")
			}
		})
	}
}

// TestChangesShowNoPassword: neither of two addresses of Redis is told with its password.
func TestChangesShowNoPassword(t *testing.T) {
	t.Parallel()
	was, is := config.DefaultService(), config.DefaultService()
	was.Redis.URL, is.Redis.URL = "redis://:one@h:1/0", "redis://:two@h:1/0"
	_, restart := was.Changes(is)
	if len(restart) != 1 || restart[0].From != restart[0].To {
		t.Errorf("told as %+v", restart)
	}
}

// TestChangesNameSections: of a section that comes or goes is told that it does, and not what is in it.
func TestChangesNameSections(t *testing.T) {
	t.Parallel()
	was, is := config.DefaultService(), config.DefaultService()
	was.Scaling = &config.Scaling{Scaling: workerconfig.Scaling{Provider: config.ProviderAdvise}}
	for _, tt := range []struct {
		was, is  config.Service
		from, to string
	}{{was, is, "a section", "no section"}, {is, was, "no section", "a section"}} {
		_, restart := tt.was.Changes(tt.is)
		if len(restart) != 1 || restart[0] != (config.Change{Key: "scaling", From: tt.from, To: tt.to}) {
			t.Errorf("told as %+v", restart)
		}
	}
}

func keys(changes []config.Change) []string {
	var keys []string
	for _, c := range changes {
		keys = append(keys, c.Key)
	}
	return keys
}
