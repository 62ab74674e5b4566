package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/diagnosis/runrecord"
	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/face/apiclient"
	"github.com/millrace/millrace/internal/kit/version"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

// Record reads all that is kept of a run.
func (c Client) Record(ctx context.Context, run rollout.RunName, now time.Time) (*runrecord.Record, error) {
	view, _, err := c.run(ctx, run)
	if err != nil {
		return nil, err
	}
	r := &runrecord.Record{
		Format: runrecord.Format, Version: runrecord.Version, RecordedAt: now.UTC(), Recorder: version.String(),
		Run: view.RunStatus, Departures: view.Departures, Alarms: view.Alarms,
	}
	if r.Steps, err = c.steps(ctx, run, 0); err != nil {
		return nil, err
	}
	if r.Engines, _, err = c.Engines(ctx); fleetForbidden(err) {
		r.Gaps = append(r.Gaps, "the engines: the token is for this run alone")
	} else if err != nil {
		return nil, err
	}
	for _, scope := range []struct{ whose, path string }{
		{"the run's", apiclient.RunPath(run) + "/events"}, {"the fleet's", "/v1/events"},
	} {
		events, gaps, err := c.recordedEvents(ctx, scope.path, view.StartedAt)
		if fleetForbidden(err) {
			gaps = []string{"events: the token is for this run alone"}
		} else if err != nil {
			return nil, err
		}
		for _, gap := range gaps {
			r.Gaps = append(r.Gaps, scope.whose+" "+gap)
		}
		r.Events = append(r.Events, events...)
	}
	slices.SortStableFunc(r.Events, func(a, b telemetry.Event) int { return a.At.Compare(b.At) })
	r.LeaveOutOdd()
	if err := r.Validate(); err != nil {
		return nil, fmt.Errorf("what the server says of run %s is no record: %w", run, err)
	}
	return r, nil
}

// fleetForbidden reports whether the caller may read the run and not the fleet, which other runs share. The run itself
// was read before.
func fleetForbidden(err error) bool {
	var problem *apiclient.Problem
	return errors.As(err, &problem) && problem.Status == http.StatusForbidden
}

// recordedEvents is a scope's facts, and the samples that are kept, since a time, less what the step records say.
func (c Client) recordedEvents(
	ctx context.Context, path string, since time.Time,
) (events runrecord.Events, gaps []string, err error) {
	facts, lacks, err := c.allEvents(ctx, path, url.Values{"facts": {"true"}})
	if err != nil {
		return nil, nil, err
	}
	recent, _, err := c.allEvents(ctx, path, nil)
	if err != nil {
		return nil, nil, err
	}
	gaps = gapsOf(lacks, slices.Concat(facts, recent), since.Add(-startSkew))
	for _, e := range slices.Concat(facts, recent) {
		switch _, step := e.Body.(telemetry.StepCompleted); {
		case step, e.At.Before(since.Add(-startSkew)):
		default:
			events = append(events, e)
		}
	}
	slices.SortStableFunc(events, func(a, b telemetry.Event) int {
		if byTime := a.At.Compare(b.At); byTime != 0 {
			return byTime
		}
		return strings.Compare(a.ID(), b.ID())
	})
	return slices.CompactFunc(events, func(a, b telemetry.Event) bool { return a.At.Equal(b.At) && a.ID() == b.ID() }),
		gaps, nil
}

// startSkew is how long before a run's start the fleet's events still concern it: engines that join for it.
const startSkew = time.Minute

// allEvents reads a list of events page by page, and how many it lacks; nil: the server does not say. Kinds that this
// program does not know are left out.
func (c Client) allEvents(ctx context.Context, path string, query url.Values) (
	all []telemetry.Event, lacks *[]api.GoneEvents, err error) {
	if query == nil {
		query = url.Values{}
	}
	query.Set("limit", strconv.Itoa(eventsPage))
	first := true
	for p, err := range apiclient.Pages(ctx, c.Client, path, query, "after",
		func(p api.EventList) string { return p.Next }) {
		if err != nil {
			return nil, nil, err
		}
		if first {
			lacks, first = p.Gone, false
		}
		events, err := decoded(p.Events)
		if err != nil {
			return nil, nil, fmt.Errorf("events of %s: %w", path, err)
		}
		all = append(all, events...)
	}
	return all, lacks, nil
}

// decoded is listed events; kinds that this program does not know are left out.
func decoded(listed []api.Event) (runrecord.Events, error) {
	encoded := make([]json.RawMessage, len(listed))
	for i, e := range listed {
		encoded[i] = bytes.TrimSpace(e.Data)
	}
	data, err := json.Marshal(encoded)
	if err != nil {
		return nil, err
	}
	var events runrecord.Events
	return events, json.Unmarshal(data, &events)
}

// gapsOf describes which of a scope's events since a time are missing. The oldest of a kind are dropped first, so
// nothing is missing if an older one is kept. Events that the step records cover are no gap.
func gapsOf(lacks *[]api.GoneEvents, kept []telemetry.Event, since time.Time) []string {
	if lacks == nil {
		return nil
	}
	first := map[string]time.Time{}
	for _, e := range kept {
		kind := e.Kind()
		if e.Droppable() {
			kind = ""
		}
		if at, known := first[kind]; !known || e.At.Before(at) {
			first[kind] = e.At
		}
	}
	var gaps []string
	for _, g := range *lacks {
		at, known := first[g.Kind]
		if known && at.Before(since) || g.Kind == telemetry.KindOf(telemetry.StepCompleted{}) {
			continue
		}
		what := fmt.Sprintf("oldest %d %s events", g.Events, g.Kind)
		switch {
		case g.Kind == "":
			what = "samples"
		case g.Events == 0:
			what = fmt.Sprintf("oldest %s events", g.Kind)
		}
		if known {
			what += " before " + at.UTC().Format(time.RFC3339)
		}
		gaps = append(gaps, what+" are not kept any more")
	}
	return gaps
}
