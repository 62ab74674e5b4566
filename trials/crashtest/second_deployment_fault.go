package crashtest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/millrace/millrace/trials/stack"
)

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
