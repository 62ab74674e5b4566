package cli

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/face/program"
	"github.com/millrace/millrace/internal/rollout"
)

// playOptions is what games of programs are played with.
type playOptions struct {
	call, tokenEnv string
	games          int
	grace          time.Duration
}

func (s *session) playCommand() *cobra.Command {
	var o playOptions
	cmd := s.onRun("play RUN (--call URL | -- PROGRAM ARGS...)", cobra.MinimumNArgs(1),
		func(ctx context.Context, c Client, run rollout.RunName, args []string) error {
			var mu sync.Mutex // programs write at once
			say := func(format string, args ...any) {
				mu.Lock()
				defer mu.Unlock()
				s.Say(format, args...)
			}
			plays, err := s.player(&o, args, say)
			if err != nil {
				return err
			}
			p := program.Player{Server: c.Client, HTTP: s.HTTP, Run: run, Program: plays, Games: o.games, Grace: o.grace,
				Say: say}
			now, hurry := context.WithCancel(context.WithoutCancel(ctx))
			defer hurry()
			defer context.AfterFunc(ctx, func() {
				say("stopping: games in play may go on for %s; interrupt again to end them now", o.grace)
				again, _ := signal.NotifyContext(now, os.Interrupt, syscall.SIGTERM)
				context.AfterFunc(again, hurry)
			})()
			tally, err := p.Play(ctx, now)
			if err != nil && tally == (program.Tally{}) {
				return err
			}
			if shown := s.showValue(tally, func() error {
				_, err := fmt.Fprintln(s.Stdout, tally)
				return err
			}); err == nil {
				err = shown
			}
			if err == nil {
				err = context.Cause(ctx)
			}
			return err
		})
	f := cmd.Flags()
	f.StringVar(&o.call, "call", "", "a webhook's URL, in the place of a program")
	f.StringVar(&o.tokenEnv, "token-env", "", "the environment variable with the webhook's bearer token")
	f.IntVar(&o.games, "games", 1, "how many games are played at a time")
	f.DurationVar(&o.grace, "grace", 30*time.Second,
		"how long games in play may go on after Ctrl-C, SIGTERM or the run's end")
	return cmd
}

// player is what plays.
func (s *session) player(o *playOptions, args []string, say func(format string, args ...any)) (program.Program, error) {
	switch {
	case (o.call == "") == (len(args) == 0):
		return nil, Usage("what plays? name a program after --, or a webhook with --call URL, and not both")
	case o.games < 1 || o.grace < 0:
		return nil, Usage("--games is at least 1, --grace at least 0s")
	case o.tokenEnv != "" && o.call == "":
		return nil, Usage("--token-env is of a webhook, --call")
	case o.call == "":
		if _, err := exec.LookPath(args[0]); err != nil {
			return nil, Usage("%v", err)
		}
		return &program.Process{Args: args, Env: os.Environ(), Show: func(g *program.Game, line string) {
			say("%s  %s", g.Episode, line)
		}}, nil
	}
	u, err := url.Parse(o.call)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, Usage("--call: want a URL such as http://127.0.0.1:9000/play; a token comes by --token-env")
	}
	token := ""
	if o.tokenEnv != "" {
		if token = s.Getenv(o.tokenEnv); token == "" {
			return nil, Usage("--token-env: the environment has no %s; it takes a variable's name, not a token", o.tokenEnv)
		}
	}
	return &program.Webhook{URL: o.call, Token: token, HTTP: s.HTTP}, nil
}
