package worker

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/millrace/millrace/config"
	"github.com/millrace/millrace/internal/engine/vllm"
	"github.com/millrace/millrace/internal/process/connections"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// TestClientsOfEngines: the worker's clients send the engines' key only where the configuration means engines to be,
// and connect only there.
func TestClientsOfEngines(t *testing.T) {
	t.Parallel()
	var auth string
	stub := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		auth = r.Header.Get("Authorization")
	}))
	defer stub.Close()
	byName := strings.Replace(stub.URL, "127.0.0.1", "localhost", 1)
	for _, tt := range []struct {
		name   string
		yaml   string
		engine enginestate.Engine
		auth   string
		denied bool
	}{
		{name: "added by somebody", engine: enginestate.Engine{URL: stub.URL}},
		{name: "of the configuration", yaml: "engines: [{url: '" + stub.URL + "'}]",
			engine: enginestate.Engine{URL: stub.URL},
			auth:   "Bearer key"},
		{name: "of a list", engine: enginestate.Engine{URL: stub.URL, Source: "dns:gpu:1"}, auth: "Bearer key"},
		{name: "of an allowed range", yaml: "engine_urls: {allow: [127.0.0.0/8, '::1']}",
			engine: enginestate.Engine{URL: byName},
			auth:   "Bearer key"},
		{name: "a name of what is denied", yaml: "engine_urls: {deny: [127.0.0.0/8, '::1']}",
			engine: enginestate.Engine{URL: byName}, denied: true},
		{name: "a name of what is not allowed", yaml: "engine_urls: {allow: [10.0.0.0/8]}",
			engine: enginestate.Engine{URL: byName}, denied: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			env := map[string]string{"MILLRACE_ENGINE_API_KEY": "key"}
			cfg, err := config.ReadService("service.yaml", []byte("retain_steps: 2\n"+tt.yaml+"\n"), func(name string) string {
				return env[name]
			})
			if err != nil {
				t.Fatal(err)
			}
			clients, err := connections.NewEngineClients(cfg.Config.Config, nil)
			if err != nil {
				t.Fatal(err)
			}
			auth = "nothing came"
			err = clients.MustGet(tt.engine).Health(t.Context())
			if tt.denied {
				if rollout.CodeOf(err) != rollout.CodeEngineGone || auth != "nothing came" ||
					!strings.Contains(vllm.Detail(err), "engine_urls") {
					t.Errorf("got %v (%s), and the stub %q", err, vllm.Detail(err), auth)
				}
				return
			}
			if err != nil || auth != tt.auth {
				t.Errorf("sent %q, %v; want %q", auth, err, tt.auth)
			}
		})
	}
}
