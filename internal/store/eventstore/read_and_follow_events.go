package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

// Record is one event as it is kept: an id to resume after, and the JSON of telemetry.Encode.
type Record struct {
	ID        string          `json:"id"`
	Kind      string          `json:"kind"`
	Data      json.RawMessage `json:"data"`
	Scope     rollout.RunName `json:"-"` // whose streams it is in; empty: the fleet's
	Droppable bool            `json:"-"` // a sample: any one may be lost
	Number    int64           `json:"-"` // among the facts or the samples of the scope, from 1
}

// Event decodes the record.
func (r Record) Event() (telemetry.Event, error) { return telemetry.Decode(r.Data) }

// WrittenAt is when the event was written, by the clock of Redis.
func (r Record) WrittenAt() time.Time {
	ms, _ := SplitID(r.ID)
	return time.UnixMilli(int64(ms)).UTC()
}

// followPause is how often Follow looks for new events. A blocking read would hold a connection per follower.
const followPause = 250 * time.Millisecond

// followPage is how many events Follow reads at once.
const followPage = 256

// Recent lists up to limit events of a run after the one with id after, oldest first; after "" is the beginning
// of what is kept. Where samples are gone already, the facts among them are still listed. The run "" is the fleet.
func (s *Store) Recent(ctx context.Context, run rollout.RunName, after string, limit int) ([]Record, error) {
	from, err := Position(after)
	if err != nil || limit <= 0 { // Redis answers nil to a count of 0
		return nil, err
	}
	var oldest, page *redis.XMessageSliceCmd
	_, err = s.rdb.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		oldest = tx.XRangeN(ctx, s.keys(run).Recent(), "-", "+", 1)
		page = tx.XRangeN(ctx, s.keys(run).Recent(), from, "+", int64(limit))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	var older []Record
	if first := oldest.Val(); len(first) > 0 && Earlier(after, first[0].ID) {
		if older, err = s.facts(ctx, run, nil, from, "("+first[0].ID, limit); err != nil {
			return nil, err
		}
	}
	for _, m := range page.Val()[:min(len(page.Val()), limit-len(older))] {
		older = append(older, record(run, "", m))
	}
	return older, nil
}

// Samples reads up to limit of a run's latest events after the one with id after, and lists those of some kinds.
// Reading continues at next; more reports that the end was not reached. Facts older than the kept samples are not read:
// a reader of samples pays for samples only.
func (s *Store) Samples(ctx context.Context, run rollout.RunName, after string, limit int,
	kinds ...string) (found []Record, next string, more bool, err error) {
	from, err := Position(after)
	if err != nil || limit <= 0 { // Redis answers nil to a count of 0
		return nil, after, false, err
	}
	page, err := s.rdb.XRangeN(ctx, s.keys(run).Recent(), from, "+", int64(limit)).Result()
	if err != nil {
		return nil, after, false, fmt.Errorf("read samples: %w", err)
	}
	next = after
	for _, m := range page {
		next = m.ID
		if kind, _ := m.Values["kind"].(string); slices.Contains(kinds, kind) {
			found = append(found, record(run, "", m))
		}
	}
	return found, next, len(page) == limit, nil
}

// Follow calls see with every event after the one with id after, old ones first, until ctx is done or see fails; it
// returns that error, and nil when ctx is done.
func (s *Store) Follow(ctx context.Context, run rollout.RunName, after string, see func(Record) error) error {
	look := time.NewTicker(followPause)
	defer look.Stop()
	for {
		page, err := s.Recent(ctx, run, after, followPage)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		for _, r := range page {
			if err := see(r); err != nil {
				return err
			}
			after = r.ID
		}
		if len(page) == followPage {
			continue
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// record decodes a row of a stream; without kind, the row itself names it. A row with invalid JSON keeps its place and
// id, but is empty, so that readers still get the others and go on after it.
func record(run rollout.RunName, kind string, m redis.XMessage) Record {
	if kind == "" {
		kind, _ = m.Values["kind"].(string)
	}
	data, _ := m.Values["json"].(string)
	if !json.Valid([]byte(data)) {
		data = "null"
	}
	r := Record{ID: m.ID, Kind: kind, Data: json.RawMessage(data), Scope: run}
	if n, _ := m.Values["n"].(string); n != "" {
		r.Droppable, r.Number = n[0] == 's', Number(n[1:])
	}
	return r
}

// Number reads what a script wrote; missing is 0.
func Number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}
