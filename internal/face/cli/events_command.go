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

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/face/apiclient"
	"github.com/millrace/millrace/internal/kit/termtext"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

const (
	// eventsPage is how many events one call asks for.
	eventsPage = 1000
	// eventPatience is how long a server may be unavailable before a follower gives up.
	eventPatience = 5 * time.Minute
	// scopesEvery is how often a follower of all events looks for runs that are new.
	scopesEvery = 5 * time.Second
)

// event is one event as the API lists it.
type event struct {
	Run  string          `json:"run,omitempty"` // empty of the fleet
	ID   string          `json:"id"`
	Kind string          `json:"kind"`
	Data json.RawMessage `json:"data"`
}

// eventPage is one answer of the API.
type eventPage struct {
	Events []event `json:"events"`
	Next   string  `json:"next"`
	Gone   *[]gone `json:"gone,omitempty"` // of a list from the beginning
}

// gone counts the oldest events of a kind that are not kept any more; with an empty kind, the latest events of all
// kinds, which include samples.
type gone struct {
	Kind   string `json:"kind"`
	Events int64  `json:"events"`
}

// eventFlags says which events are written.
type eventFlags struct {
	follow, samples          bool
	kinds                    []string
	code, since, game, level string
	step                     int64
	last                     int
	least                    level // of --level
}

func newEventsCommand(d Deps) *cobra.Command {
	s := &session{Deps: d}
	var f eventFlags
	cmd := &cobra.Command{
		Use: "events [RUN...]",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.checkEvents(&f, args); err != nil {
				return err
			}
			c, err := s.client()
			if err != nil {
				return err
			}
			r := &eventReader{session: s, client: c, flags: f, named: args, scopes: map[string]*eventScope{}}
			return r.run(cmd.Context())
		},
		ValidArgsFunction: func(cmd *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
			return s.completeRuns(cmd, nil, word)
		},
	}
	s.flags(cmd)
	flags := cmd.Flags()
	flags.BoolVarP(&f.follow, "follow", "f", false, "go on with what happens, until Ctrl-C")
	flags.StringSliceVar(&f.kinds, "kind", nil, "only these kinds, such as rollout_error,group_dropped")
	flags.StringVar(&f.level, "level", "info", "only events of this level and above: info, warn, error")
	flags.StringVar(&f.code, "code", "", "only events with this code, such as timeout")
	flags.StringVar(&f.game, "game", "", "only events of a group or a game of the run: GROUP or GROUP/EPISODE")
	flags.Int64Var(&f.step, "step", -1, "only events of this step: its batch, its record, the waits for it")
	flags.StringVar(&f.since, "since", "", "only events since a time (2026-01-02T15:04:05Z) or for so long (10m)")
	flags.IntVar(&f.last, "last", 100, "of what has happened already, the last so many; 0: all that is kept")
	flags.BoolVar(&f.samples, "samples", false, "samples too: buffer_level, engine_sample, dispatch_sample")
	complete(cmd, "kind", telemetry.KindNames())
	complete(cmd, "level", levelNames)
	return withLines(cmd)
}

// checkEvents refuses what cannot be meant, and says what this version does not know.
func (s *session) checkEvents(f *eventFlags, runs []string) (err error) {
	if f.least, err = parseLevel(f.level); err != nil {
		return err
	}
	switch {
	case f.last < 0 || f.step < -1:
		return Usage("--last and --step count from 0")
	case f.game != "" && len(runs) != 1:
		return Usage("--game is a game of one run: name the run")
	case f.follow && s.format == "yaml":
		return Usage("-o yaml is one document, and what is followed has no end: use ndjson")
	}
	for _, run := range runs {
		if err := rollout.RunName(run).ValidateID(); err != nil {
			return Usage("%v", err)
		}
		f.game = strings.TrimPrefix(f.game, run+"/")
	}
	// A newer server may have other kinds, so none is refused; but a mistyped one would never bring an event.
	for _, kind := range f.kinds {
		if known := telemetry.KindNames(); !slices.Contains(known, kind) {
			s.Say("this version knows no events of the kind %q; there are %s", kind, strings.Join(known, ", "))
		}
	}
	return nil
}

// query is the flags as the API has them.
func (f *eventFlags) query() url.Values {
	q := url.Values{"limit": {strconv.Itoa(eventsPage)}}
	setQuery(q, map[string]string{"kind": strings.Join(f.kinds, ","), "code": f.code, "since": f.since, "game": f.game})
	if !f.samples && len(f.kinds) == 0 {
		q.Set("facts", "true")
	}
	return q
}

// wants reports whether an event passes the filters that the server does not have.
func (f *eventFlags) wants(e event) bool {
	if f.least == levelInfo && f.step < 0 {
		return true
	}
	known, err := telemetry.Decode(e.Data)
	if err != nil {
		return false // nothing is known of its level or step
	}
	step, has := eventStep(known)
	return levelOf(known) >= f.least && (f.step < 0 || has && int64(step) == f.step)
}

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
		for _, e := range events {
			if e.Run = run; r.flags.wants(e) {
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
func (sc *eventScope) read(ctx context.Context, c Client) (all []event, err error) {
	pages := apiclient.Pages(ctx, c.Client, sc.path, sc.query, "after", func(p eventPage) string { return p.Next })
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
