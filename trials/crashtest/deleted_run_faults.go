package crashtest

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

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
