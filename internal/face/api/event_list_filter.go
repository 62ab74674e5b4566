package api

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

// EventsFilter says which events are wanted; empty fields want all.
type EventsFilter struct {
	Kind  []string `query:"kind" maxItems:"16" doc:"Only these kinds, such as rollout_error,group_dropped"`
	Code  string   `query:"code" maxLength:"64" doc:"Only events with this code, such as timeout"`
	Game  string   `query:"game" maxLength:"64" doc:"Only events of a group or a game: GROUP or GROUP/EPISODE"`
	Since string   `query:"since" maxLength:"64" doc:"Only events since a time (2026-01-02T15:04:05Z) or for so long (10m)"`
	Facts bool     `query:"facts" doc:"Leave out samples: buffer_level, engine_sample, dispatch_sample"`
}

// filter is an EventsFilter, understood.
type filter struct {
	kinds  []string
	code   string
	group  *rollout.GroupSeq
	sample *int
	facts  bool
}

func (in *EventsFilter) filter() (filter, error) {
	f := filter{code: in.Code, facts: in.Facts}
	for _, kinds := range in.Kind {
		f.kinds = append(f.kinds, strings.Split(kinds, ",")...)
	}
	if in.Game == "" {
		return f, nil
	}
	group, sample, ofGame := strings.Cut(in.Game, "/")
	seq, err := strconv.ParseInt(group, 10, 64)
	if err != nil || seq < 0 {
		return f, problem(rollout.Invalid, fmt.Sprintf("game=%q: want GROUP or GROUP/EPISODE, such as 47 or 47/0", in.Game))
	}
	f.group = (*rollout.GroupSeq)(&seq)
	if ofGame {
		n, err := strconv.Atoi(sample)
		if err != nil || n < 0 {
			return f, problem(rollout.Invalid, fmt.Sprintf("game=%q: want GROUP or GROUP/EPISODE, such as 47 or 47/0", in.Game))
		}
		f.sample = &n
	}
	return f, nil
}

// start is the id to read after: the later of the one named and the time named. Ids begin with milliseconds.
func (in *EventsFilter) start(after string, now time.Time) (string, error) {
	if in.Since == "" {
		return after, nil
	}
	since, err := time.Parse(time.RFC3339, in.Since)
	if err != nil {
		ago, err := time.ParseDuration(in.Since)
		if err != nil || ago < 0 {
			return "", problem(rollout.Invalid,
				fmt.Sprintf("since=%q: want a time such as 2026-01-02T15:04:05Z, or how long ago, such as 10m", in.Since))
		}
		since = now.Add(-ago)
	}
	begin := max(since.UnixMilli(), 0)
	ms, _, _ := strings.Cut(after, "-")
	if at, err := strconv.ParseInt(ms, 10, 64); err == nil && at >= begin {
		return after, nil
	}
	return fmt.Sprintf("%d-0", begin), nil
}

// all reports whether every event is wanted.
func (f *filter) all() bool {
	return len(f.kinds) == 0 && f.code == "" && f.group == nil && !f.facts
}

// wants reports whether an event is wanted.
func (f *filter) wants(e Event) bool {
	if len(f.kinds) > 0 && !slices.Contains(f.kinds, e.Kind) || f.facts && telemetry.Sample(e.Kind) {
		return false
	}
	if f.code == "" && f.group == nil {
		return true
	}
	var about struct {
		Code  string                `json:"code"`
		Seq   *rollout.GroupSeq     `json:"group_seq"`
		Ref   *rollout.EpisodeRef   `json:"ref"`
		Group *steprecord.GroupView `json:"group"`
	}
	if json.Unmarshal(e.Data, &about) != nil || f.code != "" && about.Code != f.code {
		return false
	}
	if f.group == nil {
		return true
	}
	seq := about.Seq
	switch {
	case about.Ref != nil:
		seq = &about.Ref.Seq
	case about.Group != nil:
		seq = &about.Group.Seq
	}
	if seq == nil || *seq != *f.group {
		return false
	}
	return f.sample == nil || about.Ref == nil || about.Ref.Sample == *f.sample
}
