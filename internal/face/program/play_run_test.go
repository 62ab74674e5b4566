package program

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/face/apiclient"
	"github.com/millrace/millrace/internal/kit/retry"
)

// service is a server with games of one run to lease, whose time is a bubble's. It answers as it is told to, and notes
// what is posted to games.
type service struct {
	began time.Time

	mu     sync.Mutex
	games  int                                     // that are open
	over   bool                                    // the run is, once none is
	answer func(call string) (status int, ok bool) // of a game; or there is no answer
	posted []string
}

// runOver is the server's refusal of a run that is over.
const runOver = `{"type": "urn:millrace:problem:run-over", "status": 410, "detail": "the run is completed"}`

func (s *service) RoundTrip(req *http.Request) (*http.Response, error) {
	body, _ := io.ReadAll(req.Body)
	_, call, _ := strings.Cut(req.URL.Path, "/episodes/")
	w := httptest.NewRecorder()
	if call == "lease" {
		err := s.lease(req.Context(), w)
		return w.Result(), err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	note := strings.TrimSpace(fmt.Sprintf("%s %s %s", time.Since(s.began), call, body))
	s.posted = append(s.posted, note)
	if req.Header.Get("Authorization") != "Bearer mr-key" {
		w.WriteHeader(http.StatusUnauthorized)
		return w.Result(), nil
	}
	status, ok := http.StatusOK, true
	if s.answer != nil {
		status, ok = s.answer(note)
	}
	if !ok {
		return nil, errors.New("connection refused")
	}
	w.WriteHeader(status)
	if status >= 400 {
		fmt.Fprint(w, `{"error": {"message": "rewards: there is none for b"}}`)
	}
	return w.Result(), nil
}

func (s *service) lease(ctx context.Context, w *httptest.ResponseRecorder) error {
	s.mu.Lock()
	open := s.games > 0
	if open {
		s.games--
	}
	s.mu.Unlock()
	switch {
	case open:
		_ = json.NewEncoder(w).Encode(api.LeasedGame{Episode: "0-0", BaseURL: "http://s/v1/runs/r/episodes/0-0",
			APIKey: "mr-key", LeaseSec: 60})
	case s.over:
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusGone)
		fmt.Fprint(w, runOver)
	default:
		if err := retry.Pause(ctx, pollFor); err != nil {
			return err
		}
		w.WriteHeader(http.StatusNoContent)
	}
	return nil
}

// does is a program.
type does func(ctx context.Context, g *Game) Ending

func (f does) Play(ctx context.Context, g *Game) Ending { return f(ctx, g) }

// after is a program that ends a game after a while, or as soon as it is told to.
func after(d time.Duration, e Ending) does {
	return func(ctx context.Context, _ *Game) Ending {
		select {
		case <-time.After(d):
			return e
		case <-ctx.Done():
			return Ending{How: Failed, Reason: "it was told to end"}
		}
	}
}

func (s *service) player(t *testing.T, plays Program, said *[]string) *Player {
	t.Helper()
	s.began = time.Now()
	client := &http.Client{Transport: s}
	server, err := apiclient.New("http://s", "", client)
	if err != nil {
		t.Fatal(err)
	}
	return &Player{Server: server, HTTP: client, Run: "r", Program: plays, Games: 2, Grace: 30 * time.Second,
		Say: func(format string, args ...any) { *said = append(*said, fmt.Sprintf(format, args...)) }}
}

// TestPlay: what is sent to a game's address, and when, by what its program does and the service answers; and how it is
// counted.
func TestPlay(t *testing.T) {
	t.Parallel()
	half := 0.5
	played := Ending{How: Played, Reward: Reward{Reward: &half}}
	downFor := func(d time.Duration) func(string) (int, bool) {
		return func(note string) (int, bool) {
			at, _, _ := strings.Cut(note, " ")
			since, _ := time.ParseDuration(at)
			return 200, since >= d
		}
	}
	always := func(status int) func(string) (int, bool) { return func(string) (int, bool) { return status, true } }
	for _, tt := range []struct {
		name   string
		plays  does
		answer func(string) (int, bool)
		posted []string
		tally  Tally
		says   string
	}{
		{"played", after(time.Second, played), nil, []string{`1s 0-0/done {"reward":0.5}`}, Tally{Played: 1}, ""},
		{"played for longer than the lease", after(65*time.Second, played), nil, []string{"20s 0-0/heartbeat {}",
			"40s 0-0/heartbeat {}", "1m0s 0-0/heartbeat {}", `1m5s 0-0/done {"reward":0.5}`}, Tally{Played: 1}, ""},
		{"the service is gone meanwhile", after(25*time.Second, played), downFor(26 * time.Second),
			[]string{"20s 0-0/heartbeat {}", `25s 0-0/done {"reward":0.5}`, `25.25s 0-0/done {"reward":0.5}`,
				`25.75s 0-0/done {"reward":0.5}`, `26.75s 0-0/done {"reward":0.5}`}, Tally{Played: 1}, ""},
		{"the service is restarting", after(0, played), func(note string) (int, bool) {
			return map[bool]int{true: 503, false: 200}[strings.HasPrefix(note, "0s")], true
		}, []string{`0s 0-0/done {"reward":0.5}`, `250ms 0-0/done {"reward":0.5}`}, Tally{Played: 1}, ""},
		{"the lease has ended", after(time.Hour, played), always(410), []string{"20s 0-0/heartbeat {}"}, Tally{Over: 1}, ""},
		{"it has reported itself", after(0, Ending{How: Failed, Reason: "?"}), always(410),
			[]string{`0s 0-0/fail {"reason":"?"}`}, Tally{Over: 1}, ""},
		{"a reward that is none", after(0, played), func(note string) (int, bool) {
			return map[bool]int{true: 400, false: 200}[strings.Contains(note, "done")], true
		}, []string{`0s 0-0/done {"reward":0.5}`,
			`0s 0-0/fail {"reason":"its reward is refused: rewards: there is none for b"}`}, Tally{Failed: 1},
			"game 0-0 failed: its reward is refused: rewards: there is none for b"},
		{"failed", after(0, Ending{How: Failed, Reason: "500: mr-key"}), nil,
			[]string{`0s 0-0/fail {"reason":"500: ..."}`}, Tally{Failed: 1}, "game 0-0 failed: 500: ..."},
		{"left", after(0, Ending{How: Left, Reason: "gone"}), nil, nil, Tally{Left: 1},
			"game 0-0 is left to whoever leases it next: gone; trying again, more slowly"},
		{"taken", after(0, Ending{How: Taken}), nil, nil, Tally{Taken: 1}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told []string
				s := &service{games: 1, over: true, answer: tt.answer}
				p := s.player(t, tt.plays, &told)
				p.Games, p.Grace = 1, time.Hour
				tally, err := p.Play(t.Context(), t.Context())
				if err != nil || tally != tt.tally || !slices.Equal(s.posted, tt.posted) {
					t.Errorf("%v, %v, posted %q", tally, err, s.posted)
				}
				want := "the run is completed"
				if tt.says != "" {
					want = tt.says + "\n" + want
				}
				if got := strings.Join(told, "\n"); got != want {
					t.Errorf("said\n%s\nwant\n%s", got, want)
				}
			})
		})
	}
}

// TestGoneWebhookIsNotStormed: while a webhook is gone, games are tried one by one, and rarely; a person is told once.
func TestGoneWebhookIsNotStormed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var told []string
		s := &service{games: 1000}
		p := s.player(t, after(0, Ending{How: Left, Reason: "gone"}), &told)
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Minute)
		defer stop()
		tally, err := p.Play(ctx, t.Context())
		if err != nil || tally.Left < 20 || tally.Left > 2*25 || len(told) != 1 {
			t.Errorf("%v, %v, said %q", tally, err, told)
		}
	})
}

// TestStop: for how long games in play go on once no more are leased.
func TestStop(t *testing.T) {
	t.Parallel()
	half := 0.5
	for _, tt := range []struct {
		name  string
		takes time.Duration
		hurry time.Duration // after which a person loses patience
		tally Tally
		ends  time.Duration
	}{
		{"they end", 20 * time.Second, time.Hour, Tally{Played: 2}, 20 * time.Second},
		{"they do not", time.Hour, time.Hour, Tally{Left: 2}, 35 * time.Second},
		{"nobody waits", time.Hour, 10 * time.Second, Tally{Left: 2}, 10 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told []string
				s := &service{games: 5}
				p := s.player(t, after(tt.takes, Ending{How: Played, Reward: Reward{Reward: &half}}), &told)
				ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
				defer stop()
				now, hurry := context.WithTimeout(t.Context(), tt.hurry)
				defer hurry()
				tally, err := p.Play(ctx, now)
				if took := time.Since(s.began); err != nil || tally != tt.tally || took != tt.ends || s.games != 3 {
					t.Errorf("%v, %v, after %s, %d games open", tally, err, took, s.games)
				}
			})
		})
	}
}

// TestServerThatRestarts: it is waited for, and said once. A refusal ends it all.
func TestServerThatRestarts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var told []string
		s := &service{over: true}
		p := s.player(t, nil, &told)
		n := 0
		p.Server, _ = apiclient.New("http://s", "", &http.Client{Transport: transport(func(req *http.Request) (*http.Response,
			error) {
			if n++; n < 4 {
				return nil, errors.New("connection refused")
			}
			return s.RoundTrip(req)
		})})
		if tally, err := p.Play(t.Context(), t.Context()); err != nil || tally != (Tally{}) || len(told) != 2 ||
			!strings.HasSuffix(told[0], "trying until the server answers") {
			t.Errorf("%v, %v, said %q", tally, err, told)
		}
		p.Server, _ = apiclient.New("http://s", "", &http.Client{Transport: transport(func(*http.Request) (*http.Response,
			error) {
			w := httptest.NewRecorder()
			w.WriteHeader(http.StatusNotFound)
			return w.Result(), nil
		})})
		if _, err := p.Play(t.Context(), t.Context()); err == nil {
			t.Error("a run that is not there is played")
		}
	})
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
