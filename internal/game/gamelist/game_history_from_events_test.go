package gamelist

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

func ref(group, sample int) rollout.EpisodeRef {
	return rollout.EpisodeRef{GroupRef: rollout.GroupRef{Run: "demo", Seq: rollout.GroupSeq(group)}, Sample: sample}
}

func at(second int) time.Time { return time.Unix(int64(1000+second), 0).UTC() }

// heard is a run with games of every kind: of group 0 two are finished and one is given up, of group 1 one failed and
// goes on, one failed before it had saved anything, and of group 2 nothing is told.
func heard() *History {
	h := NewHistory("demo", 100)
	finished := func(second, group, sample, phases int, rewards map[string]float64, from, to rollout.PolicyVersion) {
		h.Hear(telemetry.Event{At: at(second), Run: "demo", Body: telemetry.EpisodeFinished{Ref: ref(group, sample),
			WallSec: float64(second), Phases: phases, Attempts: 1, Rewards: rewards, MinVersion: from, MaxVersion: to}})
	}
	failed := func(second, group, sample, attempt int, code rollout.Code, final bool) {
		h.Hear(telemetry.Event{At: at(second), Run: "demo", Body: telemetry.EpisodeFailed{Ref: ref(group, sample), Code: code,
			Failure: "engine a: " + string(code), Attempt: attempt, Final: final}})
	}
	finished(1, 0, 0, 4, map[string]float64{"FRANCE": 1, "ITALY": 0}, 0, 1)
	finished(3, 0, 1, 9, map[string]float64{"FRANCE": 0.25, "ITALY": 1}, 1, 1)
	failed(2, 0, 2, 1, "timeout", false)
	failed(4, 0, 2, 2, "bad_answer", true)
	failed(4, 0, 3, 1, rollout.CodeCancelled, true)
	failed(5, 1, 0, 1, "timeout", false)
	failed(5, 1, 1, 1, "engine_gone", false)
	failed(1, 9, 0, 1, "timeout", false) // its group is over, and nothing says how the game ended
	return h
}

func shown(p Page) string {
	var names []string
	for _, g := range p.Games {
		names = append(names, fmt.Sprintf("%s:%s", g.place(), g.State))
	}
	return strings.Join(names, " ")
}

func TestListOfGames(t *testing.T) {
	t.Parallel()
	games := heard().Games([]rollout.GroupSeq{1, 2}, []InPlay{
		{Ref: ref(1, 0), Attempt: 2, Phases: 3}, {Ref: ref(2, 0), Attempt: 1, Phases: 7}})
	one, version := rollout.GroupSeq(1), rollout.PolicyVersion(0)
	for _, tt := range []struct {
		name string
		q    Query
		want string
	}{
		{"the newest group first", Query{},
			"9/0:cancelled 2/0:playing 1/0:playing 1/1:playing 0/0:finished 0/1:finished 0/2:failed 0/3:cancelled"},
		{"by mean reward", Query{Sort: "reward", State: Finished}, "0/1:finished 0/0:finished"},
		{"the poorest first, unknown ones last", Query{Sort: "-reward", Limit: 3}, "0/0:finished 0/1:finished 9/0:cancelled"},
		{"by an agent's reward", Query{Sort: "reward", State: Finished, Agent: "france"}, "0/0:finished 0/1:finished"},
		{"the longest", Query{Sort: "length", Limit: 3}, "0/1:finished 2/0:playing 0/0:finished"},
		{"of a group", Query{Group: &one}, "1/0:playing 1/1:playing"},
		{"of a version", Query{Version: &version}, "0/0:finished"},
		{"that failed somehow", Query{Code: AnyCode}, "9/0:cancelled 1/0:playing 1/1:playing 0/2:failed"},
		{"that failed so", Query{Code: "bad_answer"}, "0/2:failed"},
		{"by failure", Query{Sort: "failure", Limit: 4}, "0/2:failed 1/1:playing 9/0:cancelled 1/0:playing"},
		{"the next page", Query{Limit: 2, After: "1/0"}, "1/1:playing 0/0:finished"},
		{"nobody's", Query{Agent: "TURKEY", State: Finished}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			page, err := tt.q.Page(games)
			if err != nil || shown(page) != tt.want {
				t.Errorf("%s, %v\nwant %s", shown(page), err, tt.want)
			}
		})
	}
	for _, q := range []Query{{Sort: "beauty"}, {After: "7/7"}} {
		if _, err := q.Page(games); !rollout.Refused(err, rollout.Invalid) {
			t.Errorf("%+v: %v", q, err)
		}
	}
}

// TestPagesAreTheWholeList: page after page is every game once, in the order of the whole, whatever the order.
func TestPagesAreTheWholeList(t *testing.T) {
	t.Parallel()
	games := heard().Games(nil, nil)
	for _, sort := range append(Orders(), "-reward", "-group") {
		whole, err := Query{Sort: sort}.Page(games)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for q := (Query{Sort: sort, Limit: 3}); ; {
			page, err := q.Page(games)
			if err != nil || page.Total != len(games) {
				t.Fatal(page.Total, err)
			}
			got = append(got, strings.Fields(shown(page))...)
			if q.After = page.Next; q.After == "" {
				break
			}
		}
		if strings.Join(got, " ") != shown(whole) {
			t.Errorf("%s: %v\nwant %s", sort, got, shown(whole))
		}
	}
}

// TestHeardTwice: events that come again, and late, change nothing.
func TestHeardTwice(t *testing.T) {
	t.Parallel()
	h, again := heard(), heard()
	again.Hear(telemetry.Event{At: at(2), Body: telemetry.EpisodeFailed{Ref: ref(0, 2), Code: "timeout", Attempt: 1}})
	again.Hear(telemetry.Event{At: at(2), Body: telemetry.EpisodeFailed{Ref: ref(0, 0), Code: "timeout", Attempt: 1}})
	last := func(h *History) []Game {
		games := h.Games(nil, nil)
		slices.SortFunc(games, func(a, b Game) int { return strings.Compare(a.Name, b.Name) })
		return games
	}
	for i, g := range last(again) {
		was := last(h)[i]
		if g.State != was.State || g.EndedAt != was.EndedAt || g.Sample == 2 && g.Code != "bad_answer" {
			t.Errorf("%+v\nwas %+v", g, was)
		}
	}
}

// TestAllFailedAttempts: each attempt that failed is told once, in its order, and one that was cancelled is none.
func TestAllFailedAttempts(t *testing.T) {
	t.Parallel()
	h := NewHistory("demo", 100)
	fail := func(second, attempt int, code rollout.Code, final bool) {
		h.Hear(telemetry.Event{At: at(second), Run: "demo", Body: telemetry.EpisodeFailed{Ref: ref(0, 0), Code: code,
			Failure: string(code) + "!", Attempt: attempt, Final: final}})
	}
	fail(2, 2, "timeout", false)
	fail(1, 1, "engine_gone", false)
	fail(2, 2, "timeout", false) // again
	fail(3, 3, rollout.CodeCancelled, false)
	fail(4, 4, "bad_answer", true)
	var got []string
	for _, f := range h.Games(nil, nil)[0].Failures {
		got = append(got, fmt.Sprintf("%d %s %s %v", f.Attempt, f.Code, f.Failure, f.Final))
	}
	want := []string{"1 engine_gone engine_gone! false", "2 timeout timeout! false", "4 bad_answer bad_answer! true"}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	for attempt := range 100 {
		fail(5+attempt, 5+attempt, "timeout", false)
	}
	if all := h.Games(nil, nil)[0].Failures; len(all) != mostFailedAttempts || all[len(all)-1].Attempt != 104 {
		t.Errorf("%d attempts, the last %+v", len(all), all[len(all)-1])
	}
}

// TestOldGamesAreForgotten: a history is bounded, and the newest groups stay.
func TestOldGamesAreForgotten(t *testing.T) {
	t.Parallel()
	h := NewHistory("demo", 50)
	for group := range 500 {
		h.Hear(telemetry.Event{At: at(group), Body: telemetry.EpisodeFinished{Ref: ref(group, 0)}})
	}
	games := h.Games(nil, nil)
	page, err := Query{Limit: 1}.Page(games)
	if err != nil || len(games) > 50 || len(games) < 40 || shown(page) != "499/0:finished" {
		t.Errorf("%d games, %s, %v", len(games), shown(page), err)
	}
}
