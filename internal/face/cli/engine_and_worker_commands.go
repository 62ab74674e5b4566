package cli

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/face/apiclient"
	"github.com/millrace/millrace/internal/face/tablerow"
	"github.com/millrace/millrace/internal/kit/table"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

func newEngineCommand(d Deps) *cobra.Command {
	s := &session{Deps: d}
	cmd := &cobra.Command{Use: "engine"}
	s.flags(cmd)
	cmd.AddCommand(s.enginesCommand(), s.addCommand(), s.scalingCommand(),
		s.onEngine("drain ID", s.drain),
		s.onEngine("remove ID", s.remove))
	return cmd
}

func (s *session) onEngine(use string,
	do func(ctx context.Context, c Client, id string, now bool) error) *cobra.Command {
	var now, wait bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: use, Args: cobra.ExactArgs(1), ValidArgsFunction: s.completeEngines,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case timeout < 0:
				return Usage("--timeout %s: want a time, such as 280s", timeout)
			case timeout > 0 && !wait:
				return Usage("--timeout bounds how long is waited: add --wait")
			}
			c, err := s.client()
			if err != nil {
				return err
			}
			ask := func(ctx context.Context) error { return do(ctx, c, args[0], now) }
			if !wait {
				return ask(cmd.Context())
			}
			return s.waitDrained(cmd.Context(), c, args[0], cmd.Name() == "remove", timeout, ask)
		},
	}
	cmd.Flags().BoolVar(&now, "now", false, "wait for nothing: what the engine has is sent again elsewhere")
	cmd.Flags().BoolVar(&wait, "wait", false, "return when the engine has finished what it has, and show how far it is")
	cmd.Flags().DurationVar(&timeout, "timeout", 0, fmt.Sprintf(
		"with --wait: end after this long with exit code %d, while the engine goes on draining; 0: wait as long as it takes",
		ExitTimeout))
	return cmd
}

func (s *session) enginesCommand() *cobra.Command {
	cmd := s.on("list", func(ctx context.Context, c Client) error {
		engines, a, err := c.Engines(ctx)
		if err != nil {
			return err
		}
		if len(engines) == 0 {
			s.Say("no engines; add one with: millrace engine add URL")
		}
		return s.show(a.Body, func() error { return s.write(s.enginesTable(engines)) })
	})
	return cmd
}

func (s *session) enginesTable(engines []enginestate.Engine) *table.Table {
	t := table.New(table.Left("ENGINE"), table.Left("STATE"), table.Right("SINCE"), table.Left("URL"),
		table.Right("LIMIT"), table.Right("SLOTS"), table.Right("RUNNING"), table.Right("WAITING"), table.Right("QUEUE s"),
		table.Right("IN tok/s"), table.Right("OUT tok/s"), table.Right("CACHED"), table.Right("KV"),
		table.Right("ADAPTERS"), table.Right("PROVEN"), table.Right("USAGE ERR"), table.Left("REASON"))
	for _, e := range engines {
		r := tablerow.RowOfEngine(e, s.now())
		t.Row(r.ID, r.State, tablerow.Ago(e.Since, s.now()), e.URL, r.Limit, r.Slots, r.Running, r.Waiting, r.QueueSec,
			r.InputTPS, r.OutputTPS, r.Cached, r.KV, r.Adapters, r.Proven, r.UsageError, r.Reason)
	}
	return t
}

func (s *session) addCommand() *cobra.Command {
	var id string
	var limit int
	cmd := &cobra.Command{
		Use:  "add URL",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			address, err := url.Parse(args[0])
			if err != nil || address.Host == "" || address.Scheme != "http" && address.Scheme != "https" {
				return Usage("%q: want the engine's URL, such as http://10.0.0.7:8000", args[0])
			}
			if id == "" {
				id = EngineName(args[0])
			}
			c, err := s.client()
			if err != nil {
				return err
			}
			e, a, err := c.AddEngine(cmd.Context(), id, args[0], limit)
			if err != nil {
				return err
			}
			s.Say("engine %s added; it is %s", e.ID, e.State)
			return s.show(a.Body, func() error { return s.write(s.enginesTable([]enginestate.Engine{e})) })
		},
	}
	cmd.Flags().StringVar(&id, "id", "", "the engine's name (default: made of host and port)")
	cmd.Flags().IntVar(&limit, "max-in-flight", 0, "requests at a time, over all workers; 0 leaves it to the service")
	return cmd
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// EngineName makes a name of an engine's host and port: "http://10.0.0.7:8000" is "10.0.0.7-8000".
func EngineName(address string) string {
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		address = u.Host
	}
	return strings.Trim(notInNames.ReplaceAllString(address, "-"), "-._")
}

func (s *session) drain(ctx context.Context, c Client, id string, now bool) error {
	e, a, err := apiclient.Send[enginestate.Engine](ctx, c.Client, http.MethodPost,
		apiclient.EnginePath(id)+"/drain"+parting(now), struct{}{})
	if err != nil {
		return err
	}
	s.Say("engine %s is %s", e.ID, e.State)
	return s.show(a.Body, func() error { return s.write(s.enginesTable([]enginestate.Engine{e})) })
}

func (s *session) remove(ctx context.Context, c Client, id string, now bool) error {
	if _, err := c.Call(ctx, http.MethodDelete, apiclient.EnginePath(id)+parting(now), "", nil); err != nil {
		return err
	}
	if now {
		s.Say("engine %s leaves; its requests are sent again elsewhere", id)
	} else {
		s.Say("engine %s leaves when it has finished; see: millrace engine list", id)
	}
	return nil
}

// parting is the query that says how an engine goes.
func parting(now bool) string {
	if now {
		return "?now=true"
	}
	return ""
}

// WorkerListCommand lists workers, below the command that is one.
func WorkerListCommand(d Deps) *cobra.Command {
	s := &session{Deps: d}
	list := s.on("list", func(ctx context.Context, c Client) error {
		l, a, err := apiclient.Get[api.WorkerList](ctx, c.Client, "/v1/workers")
		if err != nil {
			return err
		}
		plays := func(w enginestate.Worker) bool { return w.State == enginestate.WorkerAlive && !w.Serves }
		if !slices.ContainsFunc(l.Workers, plays) {
			s.Say("no worker is alive; start one with: millrace worker")
		}
		return s.show(a.Body, func() error { return s.write(workersTable(l.Workers, s.now())) })
	})
	s.flags(list)
	return list
}

func workersTable(workers []enginestate.Worker, now time.Time) *table.Table {
	t := table.New(table.Left("WORKER"), table.Left("STATE"), table.Right("SEEN"), table.Left("HOST"),
		table.Left("VERSION"), table.Right("STARTED"),
		table.Right("SLOTS"), table.Right("GAMES"), table.Right("REQUESTS"), table.Right("SHARE"), table.Left("OF RUNS"),
		table.Left("SLOTS FROM"))
	for _, w := range workers {
		t.Row(w.ID, string(w.State), tablerow.Ago(w.LastSeen, now), w.Host, w.Version, tablerow.Ago(w.StartedAt, now),
			count(int64(w.Slots)),
			count(int64(w.Games)), said(w.Demand()), said(w.Share()), byRun(w.ByRun), w.SlotsFrom)
	}
	return t
}

// said is a number that a worker tells, if it does.
func said(n int, known bool) string {
	if !known {
		return "-"
	}
	return count(int64(n))
}

// byRun is the runs of a worker's games, those with most of them first.
func byRun(games map[rollout.RunName]int) string {
	runs := slices.SortedFunc(maps.Keys(games), func(a, b rollout.RunName) int {
		if games[a] != games[b] {
			return games[b] - games[a]
		}
		return strings.Compare(string(a), string(b))
	})
	parts := make([]string, len(runs))
	for i, run := range runs {
		parts[i] = fmt.Sprintf("%s %d", run, games[run])
	}
	return strings.Join(parts, ", ")
}
