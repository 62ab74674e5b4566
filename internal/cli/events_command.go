package cli

import (
	"bytes"
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

// event is one event as the API lists it.
type event struct {
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

// gone is how many of the oldest events of a kind are not kept any more; of no kind: of the latest of any kind, which
// hold the samples.
type gone struct {
	Kind   string `json:"kind"`
	Events int64  `json:"events"`
}

const (
	// eventsPage is how many events one call asks for.
	eventsPage = 1000
	// eventPatience is how long a server may be unavailable before a follower gives up.
	eventPatience = 5 * time.Minute
)

func (s *session) eventsCommand() *cobra.Command {
	var follow, samples bool
	var kinds []string
	var code, since, game string
	var last int
	cmd := s.onRun("events RUN", "List what happened to a run and its games, or follow it", exactly(1),
		func(ctx context.Context, c Client, run rollout.RunName, _ []string) error {
			if last < 0 {
				return usage("--last %d: use 0 for all, or more", last)
			}
			s.doubtKinds(kinds)
			query := url.Values{"limit": {strconv.Itoa(eventsPage)}}
			for name, value := range map[string]string{"kind": strings.Join(kinds, ","), "code": code, "since": since,
				"game": inRun(run, game)} {
				if value != "" {
					query.Set(name, value)
				}
			}
			if !samples && len(kinds) == 0 {
				query.Set("facts", "true")
			}
			r := &reader{session: s, client: c, path: apiclient.RunPath(run) + "/events", query: query}
			if err := r.latest(ctx, last); err != nil {
				return err
			}
			if follow {
				return r.follow(ctx)
			}
			return nil
		})
	cmd.Long = `List what happened to a run and its games, oldest first: changes, steps, groups, games that failed, versions, alarms. Samples
of levels and rates, which there are every two seconds, are left out unless they are asked for.

With -o ndjson, and with --follow -o json, every event is a line of JSON with its id, kind and data. A follower waits for a server
that is restarted, and goes on where it was: no event is left out, none comes twice.`
	cmd.Example = `  millrace run events demo --kind rollout_error --since 10m
  millrace run events demo --game 47/0
  millrace run events demo --follow -o ndjson | jq -c 'select(.data.final)'`
	f := cmd.Flags()
	f.BoolVarP(&follow, "follow", "f", false, "go on with what happens, until Ctrl-C")
	f.StringSliceVar(&kinds, "kind", nil, "only these kinds, such as rollout_error,group_dropped")
	f.StringVar(&code, "code", "", "only events with this code, such as timeout")
	f.StringVar(&since, "since", "", "only events since a time (2026-01-02T15:04:05Z) or for so long (10m)")
	f.StringVar(&game, "game", "", "only events of a group or a game: GROUP, GROUP/EPISODE or RUN/GROUP/EPISODE")
	f.IntVar(&last, "last", 100, "of what has happened already, the last so many; 0: all that is kept")
	f.BoolVar(&samples, "samples", false, "samples too: buffer_level, dispatch_sample")
	completeKinds(cmd)
	return withLines(cmd)
}

// inRun takes the run's own name off a game's.
func inRun(run rollout.RunName, game string) string { return strings.TrimPrefix(game, string(run)+"/") }

// reader reads a run's events one after the other, and writes them.
type reader struct {
	*session
	client Client
	path   string
	query  url.Values
	after  string // the last event that was looked at
	headed bool

	wants func(event) bool   // nil: all that the server answers
	line  func(event) string // nil: as a line of events
}

// page reads the events after the last one that was looked at. atEnd is true when there are no more for now.
func (r *reader) page(ctx context.Context) (events []event, atEnd bool, err error) {
	if r.after != "" {
		r.query.Set("after", r.after)
		r.query.Del("since") // an absence may last longer
	}
	p, _, err := apiclient.Get[eventPage](ctx, r.client.Client, r.path+"?"+r.query.Encode())
	if err != nil {
		return nil, false, err
	}
	atEnd = p.Next == r.after || p.Next == ""
	if p.Next != "" {
		r.after = p.Next
	}
	if r.wants != nil {
		p.Events = slices.DeleteFunc(p.Events, func(e event) bool { return !r.wants(e) })
	}
	return p.Events, atEnd, nil
}

// latest writes the last so many events of those that there are; 0: all.
func (r *reader) latest(ctx context.Context, most int) error {
	var kept []event
	for {
		events, atEnd, err := r.page(ctx)
		if err != nil {
			return err
		}
		if kept = append(kept, events...); most > 0 && len(kept) > most {
			kept = append([]event{}, kept[len(kept)-most:]...)
		}
		if !atEnd {
			continue
		}
		if len(kept) == 0 {
			r.say("no such events are kept")
		}
		if r.format == "json" || r.format == "yaml" {
			return r.document(kept)
		}
		return r.write(kept)
	}
}

// document writes the events as one document, which what is followed later is no part of.
func (r *reader) document(events []event) error {
	data, err := json.Marshal(eventPage{Events: append([]event{}, events...), Next: r.after})
	if err != nil {
		return fmt.Errorf("write events: %w", err)
	}
	return r.show(data, nil)
}

// follow writes what happens until the context ends. A server that is unavailable for a while is waited for.
func (r *reader) follow(ctx context.Context) error {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	server := r.outage(eventPatience)
	for {
		events, atEnd, err := r.page(ctx)
		if down := server.after(err); down != nil {
			return down
		}
		if err := r.write(events); err != nil {
			return err
		}
		if err == nil && !atEnd {
			continue
		}
		if err := tick(ctx, ticker); err != nil {
			return err
		}
	}
}

// write writes events line by line.
func (r *reader) write(events []event) error {
	var b bytes.Buffer
	for _, e := range events {
		if r.format != "table" {
			line, err := json.Marshal(e)
			if err != nil {
				return fmt.Errorf("write an event: %w", err)
			}
			b.Write(append(escapeControls(line), '\n'))
			continue
		}
		if !r.headed {
			b.WriteString(r.fit(eventLine("TIME", "KIND", "WHAT")))
			r.headed = true
		}
		if r.line != nil {
			b.WriteString(r.fit(r.line(e)))
			continue
		}
		at, text := describeEvent(e)
		b.WriteString(r.fit(eventLine(at, e.Kind, text)))
	}
	_, err := b.WriteTo(r.Stdout)
	return err
}

func eventLine(at, kind, text string) string { return fmt.Sprintf("%-19s  %-17s  %s", at, kind, text) }

// fit cuts a line to the terminal's width.
func (r *reader) fit(line string) string {
	line = strings.TrimRight(line, " ")
	if width, text := r.width(), []rune(line); width > 0 && len(text) > width {
		line = string(text[:width-1]) + "…"
	}
	return line + "\n"
}
