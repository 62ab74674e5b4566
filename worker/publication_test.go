package worker

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/simulate/enginesim"
)

// simulated starts engines that a test can make misbehave, in place of the deployment's own.
func (d *deployment) simulated(n int) []*enginesim.Engine {
	d.t.Helper()
	var engines []*enginesim.Engine
	list := ""
	for i := range n {
		cfg := enginesim.DefaultConfig()
		cfg.Speed = 8
		engine, err := enginesim.New(cfg)
		if err != nil {
			d.t.Fatal(err)
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			d.t.Fatal(err)
		}
		d.while("an engine", func(ctx context.Context) error { return engine.Serve(ctx, l) })
		engines = append(engines, engine)
		list += fmt.Sprintf("http://%s id=e%d\n", l.Addr(), i+1)
	}
	d.write("engines", list)
	return engines
}

// adapter writes an adapter with these weights under the run's prefix, and answers its directory.
func (d *deployment) adapter(name, weights string) string {
	d.t.Helper()
	header := fmt.Sprintf(`{"__metadata__":{"weights":%q}}`, weights)
	d.write(filepath.Join("adapters", name, "adapter_config.json"),
		`{"peft_type":"LORA","r":8,"lora_alpha":16,"target_modules":["q_proj"]}`)
	d.write(filepath.Join("adapters", name, "adapter_model.safetensors"),
		string(append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)))
	return filepath.Join(d.dir, "adapters", name)
}

// said is an answer of the API.
type said struct {
	status int
	header http.Header
	body   []byte
	err    error // there was no answer
}

func (s said) String() string { return fmt.Sprintf("%d %.400s %v", s.status, s.body, s.err) }

// call asks the API server, as a trainer of another language does.
func (d *deployment) call(method, path, body string) said {
	req, err := http.NewRequestWithContext(d.ctx, method, "http://"+d.cfg.Listen+path, strings.NewReader(body))
	if err != nil {
		return said{err: err}
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return said{err: err}
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return said{resp.StatusCode, resp.Header, answer, err}
}

func (d *deployment) publish(v int, path string) said {
	body, _ := json.Marshal(map[string]string{"path": path}) // strings only
	return d.call("PUT", fmt.Sprintf("/v1/runs/%s/policies/%d", d.run, v), string(body))
}

// served expects a publication to have succeeded.
func (d *deployment) served(s said) runstatus.Policy {
	d.t.Helper()
	var p runstatus.Policy
	if s.status != http.StatusOK || json.Unmarshal(s.body, &p) != nil || p.State != runstatus.PolicyServing {
		d.t.Fatalf("published: %s; want it to serve", s)
	}
	return p
}

// refused expects an answer of this status, with these words.
func (d *deployment) refused(s said, status int, words ...string) {
	d.t.Helper()
	if s.status != status {
		d.t.Errorf("answer %s; want %d", s, status)
	}
	for _, word := range words {
		if !bytes.Contains(s.body, []byte(word)) {
			d.t.Errorf("%s does not say %q", s.body, word)
		}
	}
}

// engine waits until an engine is as wanted.
func (d *deployment) engineIs(id rollout.EngineID, what string, ok func(enginestate.Engine) bool) {
	d.t.Helper()
	d.until(fmt.Sprintf("engine %s to be %s", id, what), func() error {
		e, err := d.conns.Registry.Get(d.ctx, id)
		if err == nil && !ok(e) {
			err = fmt.Errorf("it is %s (%s) with %v", e.State, e.Reason, e.Adapters)
		}
		return err
	})
}

func readyWith(adapter string) func(enginestate.Engine) bool {
	return func(e enginestate.Engine) bool {
		return e.State == enginestate.EngineReady && (adapter == "" || slices.Contains(e.Adapters, adapter))
	}
}

// Publications through the real server and worker: one engine hangs on loads, weights change under a version and a
// path, and all engines go away. A version serves or is refused for the weights it has, never for an outage.
func TestPublicationsOutlastOutages(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	engines := d.simulated(3)
	d.inProcess()
	spec := d.spec(d.run, servedModel, 50)
	spec.Adapters.PathPrefix = filepath.Join(d.dir, "adapters")
	spec.Adapters.LoadTimeout = rollout.Duration(5 * time.Second) // what works is faster on a loaded machine, too
	if err := os.MkdirAll(spec.Adapters.PathPrefix, 0o755); err != nil {
		t.Fatal(err)
	}
	d.start(spec)
	for _, id := range []rollout.EngineID{"e1", "e2", "e3"} {
		d.engineIs(id, "ready", readyWith(""))
	}

	// One hangs on loads only: the others serve, it stays ready for the rest, and re-joins.
	hang := enginesim.Fault{Kind: enginesim.FaultHang, Path: "/v1/load_lora_adapter"}
	if err := engines[2].Inject(d.ctx, hang); err != nil {
		t.Fatal(err)
	}
	one := d.adapter("one", "1")
	p := d.served(d.publish(1, one))
	if len(p.LoadSec) != 2 || !strings.Contains(strings.Join(p.Notes, "\n"), "engine e3 gets no requests") {
		t.Errorf("loaded on %v, notes %q; want it on two, and e3 named", p.LoadSec, p.Notes)
	}
	d.engineIs("e3", "ready, with its trouble", func(e enginestate.Engine) bool {
		return e.State == enginestate.EngineReady && strings.Contains(e.Reason, "lacks rolling-v1") &&
			!slices.Contains(e.Adapters, "rolling-v1")
	})
	if err := engines[2].Restart(d.ctx, 0); err != nil {
		t.Fatal(err)
	}
	d.engineIs("e3", "ready with what it lacked", readyWith("rolling-v1"))

	// The same again is a repetition; other weights are not, wherever they come from.
	d.served(d.publish(1, one))
	d.refused(d.publish(1, d.adapter("other", "2")), http.StatusConflict, "sha256:", "publish these as version 2")
	d.adapter("one", "2") // in place
	d.refused(d.publish(1, one), http.StatusConflict, "publish these as version 2")
	d.refused(d.publish(2, one), http.StatusConflict, "rolling-v1", "directory of their own")
	d.until("the change to be told", func() error {
		answer := d.call("GET", "/v1/runs/"+string(d.run), "")
		if !bytes.Contains(answer.body, []byte("have changed since it was published")) {
			return fmt.Errorf("%s", answer)
		}
		return nil
	})
	d.adapter("one", "1")

	// All engines go away during a publication, which serves when they are back.
	for _, engine := range engines {
		if err := engine.Inject(d.ctx, enginesim.Fault{Kind: enginesim.FaultDrop}); err != nil {
			t.Fatal(err)
		}
	}
	answered := make(chan said, 1)
	go func() { answered <- d.publish(2, d.adapter("two", "2")) }()
	d.engineIs("e1", "lost", func(e enginestate.Engine) bool { return e.State == enginestate.EngineLost })
	for _, engine := range engines {
		if err := engine.Heal(d.ctx); err != nil {
			t.Fatal(err)
		}
	}
	d.served(<-answered)
}
