package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/face/apiclient"
	"github.com/millrace/millrace/internal/face/tablerow"
	"github.com/millrace/millrace/internal/kit/table"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// WorkerListCommand lists workers, below the command that is one.
func WorkerListCommand(d Deps) *cobra.Command {
	s := &session{Deps: d}
	list := s.on("list", func(ctx context.Context, c Client) error {
		type workers struct {
			Workers []enginestate.Worker `json:"workers"`
		}
		l, a, err := apiclient.Get[workers](ctx, c.Client, "/v1/workers")
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(l.Workers, func(w enginestate.Worker) bool { return w.State == enginestate.WorkerAlive }) {
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
