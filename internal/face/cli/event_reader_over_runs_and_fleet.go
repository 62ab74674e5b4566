package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/face/apiclient"
	"github.com/millrace/millrace/internal/kit/termtext"
	"github.com/millrace/millrace/internal/rollout"
)

// eventReader reads the events of several scopes: of runs and of the fleet.
type eventReader struct {
	*session
	client Client
	flags  eventFlags
	named  []string
	scopes map[string]*eventScope // by run; "" is the fleet
	looked time.Time
}

// eventScope is a list of events that is read from where it was left.
type eventScope struct {
	path  string
	query url.Values
}

// run writes the last so many events that there are, and then goes on, if it shall.
func (r *eventReader) run(ctx context.Context) error {
	kept, err := r.read(ctx)
	if err != nil {
		return err
	}
	if n := r.flags.last; n > 0 && len(kept) > n {
		kept = kept[len(kept)-n:]
	}
	if len(kept) == 0 && !r.flags.follow {
		r.Say("no such events are kept")
	}
	if !r.flags.follow && (r.format == "json" || r.format == "yaml") {
		return r.showValue(map[string]any{"events": append([]event{}, kept...)}, nil)
	}
	if err := r.write(kept); err != nil || !r.flags.follow {
		return err
	}
	return r.poll(ctx, pollEvery, r.outage(eventPatience), func(ctx context.Context) (bool, error) {
		events, err := r.read(ctx)
		if writeErr := r.write(events); writeErr != nil {
			return true, writeErr
		}
		return false, err
	})
}

// read returns the news of all scopes, in order of time; with an error: as far as it was read.
func (r *eventReader) read(ctx context.Context) (all []event, err error) {
	if err := r.look(ctx); err != nil {
		return nil, err
	}
	for _, run := range slices.Sorted(maps.Keys(r.scopes)) {
		events, scopeErr := r.scopes[run].read(ctx, r.client)
		for _, listed := range events {
			if e := (event{run, listed}); r.flags.wants(e) {
				all = append(all, e)
			}
		}
		if ExitCode(scopeErr) == ExitNotFound && len(r.named) == 0 {
			delete(r.scopes, run) // deleted meanwhile
			continue
		}
		err = errors.Join(err, scopeErr)
	}
	slices.SortStableFunc(all, func(x, y event) int { return compareIDs(x.ID, y.ID) })
	return all, err
}

// read returns the scope's news; with an error: as far as it was read.
func (sc *eventScope) read(ctx context.Context, c Client) (all []api.Event, err error) {
	pages := apiclient.Pages(ctx, c.Client, sc.path, sc.query, "after", func(p api.EventList) string { return p.Next })
	for page, err := range pages {
		if err != nil {
			return all, err
		}
		all = append(all, page.Events...)
		if page.Next != "" {
			sc.query.Set("after", page.Next)
			sc.query.Del("since") // an absence may last longer
		}
	}
	return all, nil
}

// compareIDs compares when events were written: their ids are milliseconds and a number. An id of another form counts
// as the oldest.
func compareIDs(a, b string) int {
	parts := func(id string) (ms, n int64) {
		first, second, _ := strings.Cut(id, "-")
		ms, _ = strconv.ParseInt(first, 10, 64)
		n, _ = strconv.ParseInt(second, 10, 64)
		return ms, n
	}
	ams, an := parts(a)
	bms, bn := parts(b)
	return cmp.Or(cmp.Compare(ams, bms), cmp.Compare(an, bn))
}

// look finds the scopes: those that were named, or the fleet and all runs.
func (r *eventReader) look(ctx context.Context) error {
	now := r.now()
	if len(r.scopes) > 0 && (len(r.named) > 0 || now.Sub(r.looked) < scopesEvery) {
		return nil
	}
	runs := r.named
	if len(runs) == 0 {
		all, _, err := r.client.runs(ctx, false)
		if err != nil {
			return err
		}
		r.add("", "/v1/events")
		for _, run := range all {
			runs = append(runs, string(cmp.Or(run.ID, run.Spec.Name)))
		}
	}
	r.looked = now
	for _, run := range runs {
		r.add(run, apiclient.RunPath(rollout.RunName(run))+"/events")
	}
	return nil
}

func (r *eventReader) add(run, path string) {
	if r.scopes[run] == nil {
		r.scopes[run] = &eventScope{path: path, query: r.flags.query()}
	}
}

// write writes events line by line.
func (r *eventReader) write(events []event) error {
	for _, e := range events {
		if r.format != "table" {
			line, err := json.Marshal(e)
			if err != nil {
				return fmt.Errorf("write an event: %w", err)
			}
			if err := r.writeLine(line); err != nil {
				return err
			}
			continue
		}
		line := eventLine(e, len(r.named) != 1)
		if width := r.width(); width > 0 {
			line = termtext.Cut(line, width)
		}
		if _, err := fmt.Fprintln(r.Stdout, line); err != nil {
			return err
		}
	}
	return nil
}
