package crashtest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/millrace/millrace/internal/rollout"
)

// publishing reports whether the trainer is publishing a version now.
func (in *injector) publishing() bool {
	events, err := readLines[event](in.watch.current().file("events", ".jsonl"))
	return err == nil && len(events) > 0 && events[len(events)-1].Event == publishing
}

// hangLoad makes an engine hang whenever an adapter is loaded, until a step has been completed without it.
func (in *injector) hangLoad(ctx context.Context, f Fault) (back func(), err error) {
	engine := "http://" + in.service.Engines[f.Index] + "/sim/faults"
	send := func(method, body string) error {
		req, err := http.NewRequest(method, engine, strings.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := in.service.HTTP.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode >= http.StatusBadRequest {
			return fmt.Errorf("the engine answers %s", resp.Status)
		}
		return nil
	}
	if err := send(http.MethodPost, `{"kind":"hang","path":"/v1/load_lora_adapter"}`); err != nil {
		return nil, err
	}
	return func() {
		if in.service.cfg.Deck == Names {
			in.follow(ctx, &injected{Fault: f}) // with the engine hanging
		}
		_ = send(http.MethodDelete, "") // one that was started again meanwhile has no fault
	}, nil
}

// cutEngines keeps everybody from every engine, in the middle of a publication if there is one.
func (in *injector) cutEngines() (back func()) {
	var cut []*link
	for i := range engines {
		k := in.service.links[fmt.Sprintf("engine-%d", i)]
		k.sever()
		cut = append(cut, k)
	}
	return func() {
		for _, k := range cut {
			k.restore()
		}
	}
}

// publish publishes the newest version once more: from the same path, which changes nothing, or with other weights,
// which is a conflict.
func (in *injector) publish(ctx context.Context, other bool) error {
	p := in.watch.current()
	account, err := in.service.account(ctx, p)
	if err != nil {
		return err
	}
	events, err := readLines[event](p.file("events", ".jsonl"))
	if err != nil {
		return err
	}
	path := ""
	for _, e := range events {
		if e.Event == publishing && e.Version == int64(account.Version) {
			path = e.Path
		}
	}
	if path == "" {
		return errors.New("nothing is published yet")
	}
	want := http.StatusOK
	if other {
		want = http.StatusConflict
		if path, err = otherWeights(path); err != nil {
			return err
		}
	}
	body := map[string]any{"generation": account.Generation, "path": path}
	a, err := in.watch.call(ctx, http.MethodPut, fmt.Sprintf("/v1/runs/%s/policies/%d", p.run(), account.Version), body)
	if err != nil || transient(a) || is(a, rollout.Fenced) {
		return fmt.Errorf("not answered: %v %s", err, a.Body)
	}
	// A trainer that goes on meanwhile may have published the next version, which makes this one an old one.
	if now, err := in.service.account(ctx, p); err == nil && now.Version != account.Version {
		return errors.New("a newer version was published meanwhile")
	}
	if a.Status != want {
		in.complain("%s: version %d, published again from %s, was answered %d %s; want %d",
			p.label(), account.Version, path, a.Status, a.Body, want)
	}
	return nil
}

// otherWeights copies an adapter and changes its weights.
func otherWeights(path string) (string, error) {
	other := path + "-other"
	if err := os.MkdirAll(other, 0o755); err != nil {
		return "", err
	}
	for _, name := range []string{"adapter_config.json", weightsFile} {
		b, err := os.ReadFile(filepath.Join(path, name))
		if err != nil {
			return "", err
		}
		if name == weightsFile {
			b[len(b)-1] ^= 1
		}
		if err := os.WriteFile(filepath.Join(other, name), b, 0o644); err != nil {
			return "", err
		}
	}
	return other, nil
}
