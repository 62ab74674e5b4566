package crashtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/trials/stack"
)

// inTheMiddle reports whether the run has steps behind it and enough before it to be seen going on.
func (in *injector) inTheMiddle() bool {
	p := in.watch.current()
	_, account := in.watch.now()
	return p.number > 0 && account.NextStep > 0 && int(account.NextStep)+p.cfg.Depth+1 < p.cfg.Steps
}

// publishing reports whether the trainer is publishing a version now.
func (in *injector) publishing() bool {
	events, err := readLines[event](in.watch.current().file("events", ".jsonl"))
	return err == nil && len(events) > 0 && events[len(events)-1].Event == publishing
}

// nameFault does a fault of a name or an end.
func (in *injector) nameFault(ctx context.Context, f Fault) (back func(), err error) {
	switch f.Kind {
	case TerminateGroup:
		return in.terminateGroup(ctx)
	case TerminateRun:
		if _, err := in.service.temporal.terminate(ctx, "Run", 0); err != nil {
			return nil, err
		}
		return in.startAgain(ctx), nil
	case ForgetRun:
		if err := in.service.temporal.forget(ctx, "Run"); err != nil {
			return nil, err
		}
		return in.startAgain(ctx), nil
	case TerminateFleet:
		if _, err := in.service.temporal.terminate(ctx, "Fleet", 0); err != nil {
			return nil, err
		}
		return func() { in.expect(ctx, f, "the fleet has a keeper again", in.service.temporal.runs("Fleet")) }, nil
	case HangLoad:
		return in.hangLoad(ctx, f)
	case EnginesOutage:
		return in.cutEngines(), nil
	case PublishAgain, PublishOther:
		return nil, in.publish(ctx, f.Kind == PublishOther)
	case SecondDeployment:
		return nil, in.secondDeployment(ctx)
	case EndWorker:
		return nil, in.signal(in.process(ctx, "worker", f.Index), syscall.SIGTERM)
	}
	return nil, fmt.Errorf("nobody knows how to do %s", f.Kind)
}

// terminateGroup terminates one group; every group that was in play then must leave the account or finish.
func (in *injector) terminateGroup(ctx context.Context) (back func(), err error) {
	p := in.watch.current()
	before, err := in.service.account(ctx, p)
	if err != nil {
		return nil, err
	}
	if _, err := in.service.temporal.terminate(ctx, "Group", 0); err != nil {
		return nil, err
	}
	playing := append(before.Queued, before.InFlight...)
	return func() {
		in.expect(ctx, Fault{Kind: TerminateGroup}, "no group that was in play still is", func(ctx context.Context) error {
			now, err := in.service.account(ctx, p)
			if err != nil || int(now.NextStep) >= p.cfg.Steps {
				return err
			}
			for _, seq := range playing {
				if contains(now.Queued, seq) || contains(now.InFlight, seq) {
					return fmt.Errorf("group %d is", seq)
				}
			}
			return nil
		})
	}, nil
}

func contains(all []rollout.GroupSeq, seq rollout.GroupSeq) bool {
	for _, s := range all {
		if s == seq {
			return true
		}
	}
	return false
}

// startAgain starts the run once more, as its operator does who sees that it is gone.
func (in *injector) startAgain(ctx context.Context) func() {
	p := in.watch.current()
	return func() {
		client, err := in.service.Client()
		if err != nil {
			in.complain("%v", err)
			return
		}
		in.expect(ctx, Fault{Kind: TerminateRun}, "the run can be started again", func(ctx context.Context) error {
			if err := client.StartRun(ctx, p.spec()); err != nil {
				return err
			}
			return in.service.temporal.runs("Run")(ctx)
		})
	}
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

// end ends a life of a name: the run is deleted under its trainer, which ends for good, or deletes itself. The name is
// free when it returns.
func (in *injector) end(ctx context.Context, p plan) {
	in.fault.Lock()
	defer in.fault.Unlock()
	in.watch.rest()
	d := injected{Fault: Fault{Kind: ExpireName}, when: time.Now(), run: p.run()}
	path := "/v1/runs/" + p.run()
	if p.cut() {
		d.Kind = ReturnName
		in.expect(ctx, d.Fault, p.label()+" can be deleted", func(ctx context.Context) error {
			a, err := in.watch.call(ctx, http.MethodDelete, path+"?force=true", nil)
			if err == nil && a.Status >= http.StatusBadRequest && a.Status != http.StatusNotFound {
				err = fmt.Errorf("%d %s", a.Status, a.Body)
			}
			return err
		})
	}
	in.expect(ctx, d.Fault, p.label()+" is unknown", func(ctx context.Context) error {
		a, err := in.watch.call(ctx, http.MethodGet, path, nil)
		if err == nil && a.Status != http.StatusNotFound {
			err = fmt.Errorf("it answers %d", a.Status)
		}
		return err
	})
	in.service.End(trainerOf(p))
	in.service.say("  %s is gone: %s", p.label(), d.Kind)
	d.until = time.Now()
	in.deleted = &d
}

// returned waits until the next run of a deleted name has completed a step.
func (in *injector) returned(ctx context.Context) {
	in.fault.Lock()
	defer in.fault.Unlock()
	if in.deleted == nil {
		return
	}
	d := *in.deleted
	in.deleted = nil
	in.follow(ctx, &d)
	in.done = append(in.done, d)
}

// second is the configuration of another deployment on the same Redis and namespace.
const second = "redis: {prefix: second}\ntemporal: {task_queue_prefix: second}\n"

// secondDeployment starts, changes and stops a run of the same name in another deployment, which this one must not
// feel.
func (in *injector) secondDeployment(ctx context.Context) error {
	if in.second == "" {
		server, err := in.service.Deploy(ctx, "second-", second, 1)
		if err != nil {
			return err
		}
		in.second = server
	}
	p := in.watch.current()
	run := "/v1/runs/" + p.run()
	spec := p.spec()
	spec.Buffer.Depth++ // it is another run
	for _, c := range []struct {
		method, path string
		body         any
	}{
		{http.MethodPost, "/v1/runs", spec},
		{http.MethodPatch, run, map[string]any{"depth": spec.Buffer.Depth + 1}},
		{http.MethodPost, run + "/stop", nil},
		{http.MethodDelete, run, nil},
	} {
		err := stack.Await(ctx, in.bound(SecondDeployment), func(ctx context.Context) error {
			a, err := in.watch.callAt(ctx, in.second, c.method, c.path, c.body)
			if err == nil && a.Status >= http.StatusBadRequest {
				err = fmt.Errorf("%d %s", a.Status, a.Body)
			}
			return err
		})
		if err != nil && ctx.Err() == nil {
			in.complain("%s: the second deployment cannot %s %s: %v", p.label(), c.method, c.path, err)
		}
	}
	a, err := in.watch.call(ctx, http.MethodGet, run, nil)
	if err != nil || a.Status != http.StatusOK {
		return fmt.Errorf("the first deployment's run cannot be seen: %v %s", err, a.Body)
	}
	var seen struct {
		State string `json:"state"`
		Spec  struct {
			Buffer struct {
				Depth int `json:"depth"`
			} `json:"buffer"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(a.Body, &seen); err != nil {
		return err
	}
	over := in.watch.current().label() != p.label()
	if !over && (seen.State == "stopped" || seen.Spec.Buffer.Depth != p.cfg.Depth) {
		in.complain("%s: a run of the same name in another deployment made it %s with depth %d",
			p.label(), seen.State, seen.Spec.Buffer.Depth)
	}
	return nil
}
