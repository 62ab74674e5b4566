package axiom

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/store/eventstore"
)

// rowsOf is n rows a microsecond apart.
func rowsOf(n int) []row {
	rows := make([]row, n)
	for i := range rows {
		rows[i] = row{at: 1_800_000_000_000_000_000 + 1_000_500 + int64(i)*1000, line: fmt.Appendf(nil, `{"n":%d}`, i),
			record: store.Record{ID: fmt.Sprintf("%d-0", i+1)}}
	}
	return rows
}

// sink answers parts of a batch as one kind of Axiom does, and counts what it took.
type sink struct {
	rows  []row
	took  map[int]int
	asked int
	parks int
	reply func(p part) answer
}

// poison are events that this sink never takes.
func (s *sink) poison(p part, is func(int) bool) (good, bad part) {
	for _, i := range p {
		if is(i) {
			bad = append(bad, i)
		} else {
			good = append(good, i)
		}
	}
	return good, bad
}

func (s *sink) take(p part) {
	for _, i := range p {
		s.took[i]++
	}
}

func (s *sink) timeOf(i int, layout string) string {
	return time.Unix(0, s.rows[i].at).UTC().Format(layout)
}

// run delivers until all is accounted for or the batch is to be left, and returns the last reaction.
func (s *sink) run(t *testing.T, d *batchDelivery) reaction {
	t.Helper()
	var r reaction
	for p := d.next(); p != nil; p = d.next() {
		if s.asked++; s.asked > 30_000 {
			t.Fatal("no end")
		}
		r = d.answered(s.reply(p), now, 1)
		if r.act == park && !d.passed {
			return r
		}
		if r.act == park {
			s.parks++
		}
	}
	return reaction{}
}

const micro = "2006-01-02T15:04:05.999999Z"

// TestDelivery has what becomes of a hundred events by what kind of answers they meet.
func TestDelivery(t *testing.T) {
	t.Parallel()
	is := func(which ...int) func(int) bool {
		return func(i int) bool { return slices.Contains(which, i) }
	}
	whole := func(status int, bad func(int) bool) func(s *sink) func(part) answer {
		return func(s *sink) func(part) answer {
			return func(p part) answer {
				if _, poison := s.poison(p, bad); len(poison) > 0 {
					return answer{status: status, message: "cannot parse"}
				}
				s.take(p)
				return answer{status: 200, counted: true, ingested: int64(len(p))}
			}
		}
	}
	partial := func(bad func(int) bool, tell func(s *sink, poison part) []failure) func(s *sink) func(part) answer {
		return func(s *sink) func(part) answer {
			return func(p part) answer {
				good, poison := s.poison(p, bad)
				s.take(good)
				return answer{status: 200, counted: true, ingested: int64(len(good)), failed: int64(len(poison)),
					failures: tell(s, poison)}
			}
		}
	}
	byTime := func(layout string) func(*sink, part) []failure {
		return func(s *sink, poison part) []failure {
			var out []failure
			for _, i := range poison {
				out = append(out, failure{s.timeOf(i, layout), fmt.Sprintf("no good: %d", i)})
			}
			return out
		}
	}
	all := func(int) bool { return true }
	for _, tt := range []struct {
		name     string
		reply    func(*sink) func(part) answer
		refused  []int
		requests int
		twice    bool   // some may arrive more than once
		parked   string // in the reason
	}{
		{name: "all well", reply: whole(400, is()), requests: 1},
		{name: "partly refused", reply: partial(is(3, 50), byTime(time.RFC3339Nano)), refused: []int{3, 50}, requests: 1},
		{name: "times to the microsecond", reply: partial(is(3, 50), byTime(micro)), refused: []int{3, 50}, requests: 1},
		{name: "times to the second", reply: partial(is(3), byTime(time.RFC3339)), refused: []int{3}, requests: 20,
			twice: true},
		{name: "not said which", reply: partial(is(3, 50), func(*sink, part) []failure { return nil }),
			refused: []int{3, 50}, requests: 40, twice: true},
		{name: "said of one alone", reply: partial(is(3, 50), func(s *sink, p part) []failure {
			return byTime(time.RFC3339Nano)(s, p)[:min(1, len(p))]
		}), refused: []int{3, 50}, requests: 20, twice: true},
		{name: "said of one twice", reply: partial(is(3, 50), func(s *sink, p part) []failure {
			f := byTime(time.RFC3339Nano)(s, p)
			return append(f[:min(1, len(f))], f[:min(1, len(f))]...)
		}), refused: []int{3, 50}, requests: 20, twice: true},
		{name: "one poisons the request", reply: whole(400, is(42)), refused: []int{42}, requests: 30, twice: true},
		{name: "some poison the request", reply: whole(422, is(0, 1, 2, 42, 99)), refused: []int{0, 1, 2, 42, 99},
			requests: 70, twice: true},
		{name: "most poison the request", reply: whole(400, func(i int) bool { return i%4 > 0 }),
			refused: slices.DeleteFunc(places(100), func(i int) bool { return i%4 == 0 }), requests: 330, twice: true},
		{name: "nothing passes any more", reply: func(s *sink) func(part) answer {
			return func(p part) answer {
				if s.asked > 3 && s.parks < 3 {
					return answer{status: 400, message: "cannot parse"}
				}
				if len(p) > 25 {
					return answer{status: 413}
				}
				s.take(p)
				return answer{status: 200, counted: true, ingested: int64(len(p))}
			}
		}, requests: 90, twice: true},
		{name: "one is too large for a request of its own", reply: whole(413, is(42)),
			refused: []int{42}, requests: 21, twice: true},
		{name: "too many for one request", requests: 40, reply: func(s *sink) func(part) answer {
			return func(p part) answer {
				if len(p) > 10 {
					return answer{status: 413}
				}
				s.take(p)
				return answer{status: 200, counted: true, ingested: int64(len(p))}
			}
		}},
		{name: "every request is refused", reply: whole(400, all), requests: 17, parked: "cannot parse"},
		{name: "every request is too large", reply: whole(413, all), requests: 40, parked: "413"},
		{name: "every event is refused", reply: partial(all, byTime(time.RFC3339Nano)), requests: 1, parked: "no good"},
		{name: "every event is refused, and which is not said",
			reply:    partial(all, func(*sink, part) []failure { return nil }),
			requests: 1, parked: "no reason"},
		{name: "four of ten accounted for, at first", requests: 3, twice: true, reply: func(s *sink) func(part) answer {
			return func(p part) answer {
				s.take(p)
				if s.asked <= 2 {
					return answer{status: 200, counted: true, ingested: 40}
				}
				return answer{status: 200, counted: true, ingested: int64(len(p))}
			}
		}},
		{name: "less than half accounted for, ever, but of single events", requests: 600, twice: true,
			reply: func(s *sink) func(part) answer {
				return func(p part) answer {
					s.take(p)
					return answer{status: 200, counted: true, ingested: int64(len(p)+1) / 2}
				}
			}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := &sink{rows: rowsOf(100), took: map[int]int{}}
			s.reply = tt.reply(s)
			d := newDelivery(s.rows, 0)
			r := s.run(t, d)
			if s.asked > tt.requests {
				t.Errorf("%d requests, want at most %d", s.asked, tt.requests)
			}
			if tt.parked != "" {
				if r.act != park || !strings.Contains(r.reason, tt.parked) || len(s.took) > 0 {
					t.Errorf("left with %+v; %d taken", r, len(s.took))
				}
				return
			}
			if r.act == park {
				t.Fatalf("left with %+v", r)
			}
			if got := slices.Sorted(maps.Keys(d.refusals())); !slices.Equal(got, tt.refused) {
				t.Errorf("refused %v, want %v", got, tt.refused)
			}
			for i := range s.rows {
				if n := s.took[i]; n != 1 && !slices.Contains(tt.refused, i) && !(tt.twice && n > 1) {
					t.Errorf("event %d arrived %d times", i, n)
				}
			}
		})
	}
}

func places(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// FuzzDelivery has the law: whatever is refused, in whatever way it is told, and whatever fails in between, each event
// arrived or is known to be refused, and what is called refused never arrived, or was sent together with what failed.
func FuzzDelivery(f *testing.F) {
	for seed := range uint64(40) {
		f.Add(seed, uint16(1+seed*7), uint8(seed%5))
	}
	f.Fuzz(func(t *testing.T, seed uint64, count uint16, style uint8) {
		n := 1 + int(count)%300
		rnd := rand.New(rand.NewPCG(seed, 11))
		share := []float64{0, 0.02, 0.3, 0.9, 1}[rnd.IntN(5)]
		bad := map[int]bool{}
		for i := range n {
			bad[i] = rnd.Float64() < share
		}
		s := &sink{rows: rowsOf(n), took: map[int]int{}}
		s.reply = func(p part) answer {
			good, poison := s.poison(p, func(i int) bool { return bad[i] })
			switch fault := rnd.IntN(20); fault {
			case 0:
				return answer{status: 503}
			case 1:
				s.take(good)
				return answer{failure: fmt.Errorf("reset")} // the answer was lost
			case 2:
				return answer{status: 429}
			}
			if style%5 == 0 && len(poison) > 0 {
				return answer{status: 400, message: "poison"}
			}
			if style%5 == 1 && len(p) > 7 {
				return answer{status: 413}
			}
			s.take(good)
			a := answer{status: 200, counted: true, ingested: int64(len(good)), failed: int64(len(poison))}
			for _, i := range poison {
				switch {
				case style%5 == 2 && rnd.IntN(2) == 0: // some are not told
				case style%5 == 3:
					a.failures = append(a.failures, failure{s.timeOf(i, "2006-01-02T15:04:05.000Z"), "poison"})
				default:
					a.failures = append(a.failures, failure{s.timeOf(i, micro), "poison"})
				}
			}
			return a
		}
		d := newDelivery(s.rows, 0)
		if r := s.run(t, d); r.act == park {
			if len(s.took) > 0 {
				for i := range s.took {
					if d.passed {
						t.Fatalf("left, though event %d had passed", i)
					}
				}
			}
			return
		}
		refused := d.refusals()
		for i := range n {
			if _, is := refused[i]; is != bad[i] {
				t.Errorf("event %d: refused %t, bad %t", i, is, bad[i])
			}
			if !bad[i] && s.took[i] == 0 {
				t.Errorf("event %d is good and did not arrive", i)
			}
		}
	})
}

// TestWhatPassesIsFound: Axiom answers 400 to every request that has one of many bad events. However few of a batch are
// good, one of them is tried sooner or later, and the others become dead letters.
func TestWhatPassesIsFound(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		good   func(i int) bool
		kind   func(i int) string
		rounds int // in which one is found, at most
	}{
		{"of another kind", func(i int) bool { return i == 777 }, func(i int) string {
			if i == 777 {
				return "training_step"
			}
			return "rollout_complete"
		}, 1},
		{"one of fifty", func(i int) bool { return i%50 == 13 }, func(int) string { return "rollout_complete" }, 20},
		{"where the first places never are", func(i int) bool { return i%125 == 1 },
			func(int) string { return "rollout_complete" }, 40},
		{"one of a thousand", func(i int) bool { return i == 501 }, func(int) string { return "rollout_complete" }, 1000},
		{"the last of many kinds", func(i int) bool { return i == 990 }, func(i int) string {
			return fmt.Sprint("kind", min(i/10, 99))
		}, 1000},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for round := range tt.rounds {
				s := &sink{rows: rowsOf(1000), took: map[int]int{}}
				for i := range s.rows {
					s.rows[i].record.Kind = tt.kind(i)
				}
				s.reply = func(p part) answer {
					good, bad := s.poison(p, func(i int) bool { return !tt.good(i) })
					if len(bad) > 0 {
						return answer{status: 400, message: "cannot parse"}
					}
					s.take(good)
					return answer{status: 200, counted: true, ingested: int64(len(good))}
				}
				d := newDelivery(s.rows, round)
				if s.run(t, d); len(s.took) == 0 {
					continue
				}
				for i := range s.rows {
					if refused := d.refusals()[i] != ""; refused == tt.good(i) {
						t.Fatalf("event %d: refused %t", i, refused)
					}
				}
				t.Logf("in round %d", round)
				return
			}
			t.Errorf("parked without end")
		})
	}
}
