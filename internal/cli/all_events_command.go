package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/apiclient"
	"github.com/millrace/millrace/internal/rollout"
)

// scopesEvery is how often a follower of all events looks for runs that are new.
const scopesEvery = 5 * time.Second

func newEventsCommand(d Deps) *cobra.Command {
	s := &session{Deps: d}
	var follow, samples bool
	var kinds []string
	var since string
	var last int
	cmd := &cobra.Command{
		Use:   "events [RUN...]",
		Short: "Write the events of all runs and of the fleet as lines of JSON, or follow them",
		Long: `Write events as lines of JSON (NDJSON), oldest first: those of all runs and of the fleet, or of the runs that are named. Each has the run,
none for the fleet, and its id, kind and data. With --follow what happens is written as it happens, runs that begin meanwhile included; a
server that is restarted is waited for, no event is left out and none comes twice.

` + ExitCodesFor(ExitOK, ExitError, ExitUsage, ExitNotFound, ExitAuth, ExitUnavailable, ExitInterrupted),
		Example: `  millrace events -f --kind rollout_error,alarm_changed
  millrace events demo --since 10m | jq -r '[.run, .kind] | @tsv'`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if last < 0 {
				return usage("--last %d: use 0 for all, or more", last)
			}
			if s.format == "yaml" {
				return usage("-o yaml: events are lines of JSON, or with -o table of text")
			}
			for _, arg := range args {
				if err := rollout.RunName(arg).ValidateID(); err != nil {
					return usage("%v", err)
				}
			}
			c, err := s.client()
			if err != nil {
				return err
			}
			s.doubtKinds(kinds)
			query := url.Values{"limit": {strconv.Itoa(eventsPage)}}
			if len(kinds) > 0 {
				query.Set("kind", strings.Join(kinds, ","))
			} else if !samples {
				query.Set("facts", "true")
			}
			if since != "" {
				query.Set("since", since)
			}
			all := &allEvents{session: s, client: c, query: query, named: args, scopes: map[string]*reader{}}
			return all.run(cmd.Context(), last, follow)
		},
		ValidArgsFunction: func(cmd *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
			return s.completeRuns(cmd, nil, word)
		},
	}
	s.flags(cmd)
	cmd.PersistentFlags().Lookup("output").DefValue = "ndjson"
	s.format = "ndjson"
	f := cmd.Flags()
	f.BoolVarP(&follow, "follow", "f", false, "go on with what happens, until Ctrl-C")
	f.StringSliceVar(&kinds, "kind", nil, "only these kinds, such as rollout_error,engine_changed")
	f.StringVar(&since, "since", "", "only events since a time (2026-01-02T15:04:05Z) or for so long (10m)")
	f.IntVar(&last, "last", 100, "of what has happened already, the last so many; 0: all that is kept")
	f.BoolVar(&samples, "samples", false, "samples too: buffer_level, engine_sample, dispatch_sample")
	completeKinds(cmd)
	return withLines(cmd)
}

// allEvents reads the events of several runs and of the fleet.
type allEvents struct {
	*session
	client Client
	query  url.Values
	named  []string
	scopes map[string]*reader // by run; "" is the fleet
	looked time.Time
}

// scoped is an event and the run that it is of.
type scoped struct {
	Run string `json:"run,omitempty"`
	event
}

// run writes the last so many events that there are, and then goes on, if it shall.
func (a *allEvents) run(ctx context.Context, last int, follow bool) error {
	kept, err := a.read(ctx)
	if err != nil {
		return err
	}
	if last > 0 && len(kept) > last {
		kept = kept[len(kept)-last:]
	}
	if len(kept) == 0 && !follow {
		a.say("no such events are kept")
	}
	if err := a.write(kept); err != nil || !follow {
		return err
	}
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	server := a.outage(eventPatience)
	for {
		if err := tick(ctx, ticker); err != nil {
			return err
		}
		events, err := a.read(ctx)
		if writeErr := a.write(events); writeErr != nil {
			return writeErr
		}
		if down := server.after(err); down != nil {
			return down
		}
	}
}

// read is what is new in all scopes, in the order of time; with an error: as far as it was read.
func (a *allEvents) read(ctx context.Context) (all []scoped, err error) {
	if err := a.look(ctx); err != nil {
		return nil, err
	}
	for _, run := range slices.Sorted(keysOf(a.scopes)) {
		r := a.scopes[run]
		for {
			events, atEnd, pageErr := r.page(ctx)
			if ExitCode(pageErr) == ExitNotFound && len(a.named) == 0 {
				delete(a.scopes, run) // deleted meanwhile
				break
			}
			if pageErr != nil {
				err = pageErr
				break
			}
			for _, e := range events {
				all = append(all, scoped{run, e})
			}
			if atEnd {
				break
			}
		}
	}
	slices.SortStableFunc(all, func(x, y scoped) int { return compareIDs(x.ID, y.ID) })
	return all, err
}

func keysOf(m map[string]*reader) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// compareIDs compares when events were written: their ids are milliseconds and a number.
func compareIDs(a, b string) int {
	ms := func(id string) (int64, int64) {
		first, second, _ := strings.Cut(id, "-")
		at, _ := strconv.ParseInt(first, 10, 64) // an id of another form counts as the oldest
		n, _ := strconv.ParseInt(second, 10, 64)
		return at, n
	}
	ams, an := ms(a)
	bms, bn := ms(b)
	return cmp.Or(cmp.Compare(ams, bms), cmp.Compare(an, bn))
}

// look finds the scopes: those that were named, or the fleet and all runs.
func (a *allEvents) look(ctx context.Context) error {
	now := a.now()
	if len(a.scopes) > 0 && (len(a.named) > 0 || now.Sub(a.looked) < scopesEvery) {
		return nil
	}
	runs := a.named
	if len(runs) == 0 {
		all, _, err := allRuns(ctx, a.client.Client, false)
		if err != nil {
			return err
		}
		a.add("", "/v1/events")
		for _, r := range all {
			runs = append(runs, string(cmp.Or(r.ID, r.Spec.Name)))
		}
	}
	a.looked = now
	for _, run := range runs {
		a.add(run, apiclient.RunPath(rollout.RunName(run))+"/events")
	}
	return nil
}

func (a *allEvents) add(run, path string) {
	if a.scopes[run] != nil {
		return
	}
	query := url.Values{}
	for name, values := range a.query {
		query[name] = slices.Clone(values)
	}
	a.scopes[run] = &reader{session: a.session, client: a.client, path: path, query: query}
}

func (a *allEvents) write(events []scoped) error {
	for _, e := range events {
		if a.format == "table" {
			at, text := describeEvent(e.event)
			r := &reader{session: a.session}
			line := fmt.Sprintf("%-19s  %-12s  %-16s  %s", at, cmp.Or(e.Run, "(fleet)"), e.Kind, text)
			if _, err := fmt.Fprint(a.Stdout, r.fit(line)); err != nil {
				return err
			}
			continue
		}
		line, err := json.Marshal(e)
		if err != nil {
			return fmt.Errorf("write an event: %w", err)
		}
		if _, err := a.Stdout.Write(append(escapeControls(line), '\n')); err != nil {
			return err
		}
	}
	return nil
}
