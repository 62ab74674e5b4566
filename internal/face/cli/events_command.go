package cli

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/face/api"
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
	Run string `json:"run,omitempty"` // empty of the fleet
	api.Event
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
