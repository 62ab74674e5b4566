package cli

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/apiclient"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/table"
)

// fastestTop is the least time between two views: the service samples its engines once a second.
const fastestTop = 250 * time.Millisecond

func (s *session) topCommand() *cobra.Command {
	var every time.Duration
	var views int
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch the engines: load, tokens per second, cache, the busiest first",
		Long: `Show the engines again and again, the busiest first, under a line with the fleet's sums and its worst engine.

Tokens per second are differences of the engines' own counters over the last sample's window, so that they add up. CACHED is the share of prompt
tokens found in the prefix cache, SLOTS the share of the request limit in use, QUEUE s the mean wait in dispatch queues of the requests answered.
USAGE ERR is how much more the engine counted than its answers account for: with some other client at the engine it is above 0. On a terminal the table is painted over until Ctrl-C; elsewhere
it is written once, or --views times. With -o json or yaml every view is a document.`,
		Example: "  millrace engine top\n  millrace engine top --views 60 --every 1s -o json | jq -c " +
			"'.engines[].load.output_tps'",
		Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if every < fastestTop {
				return usage("--every %v: use %v or more", every, fastestTop)
			}
			if views < 0 {
				return usage("--views %d: use 0 for no end, or more", views)
			}
			c, err := s.client()
			if err != nil {
				return err
			}
			if !cmd.Flags().Changed("views") && !terminal(s.Stdout) {
				views = 1
			}
			return s.top(cmd.Context(), c, every, views)
		},
	}
	cmd.Flags().DurationVar(&every, "every", time.Second, "time between two views")
	cmd.Flags().IntVar(&views, "views", 0, "end after so many views; 0 is no end (default 1 when the output "+
		"is no terminal)")
	return cmd
}

// top shows so many views of the engines; 0: until the context ends. A server that is unavailable for a while is waited
// for.
func (s *session) top(ctx context.Context, c Client, every time.Duration, views int) error {
	p := &progress{w: s.Stdout, repaint: s.format == "table" && terminal(s.Stdout)}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	server := s.outage(patience)
	for shown := 0; ; {
		engines, a, err := c.Engines(ctx)
		if err == nil {
			if err := s.view(p, engines, a); err != nil {
				return err
			}
			if shown++; shown == views {
				return nil
			}
		} else if shown == 0 {
			return err
		} else if server.since.IsZero() {
			p.painted = 0
		}
		if err := server.after(err); err != nil {
			return err
		}
		if err := tick(ctx, ticker); err != nil {
			return err
		}
	}
}

// view shows the engines once.
func (s *session) view(p *progress, engines []rollout.Engine, a apiclient.Answer) error {
	return s.show(a.Body, func() error {
		var b bytes.Buffer
		fmt.Fprintf(&b, "%s  %s\n", s.now().Format(time.TimeOnly), fleetLine(engines))
		if err := topTable(engines, s.now()).Write(&b, s.width()); err != nil {
			return err
		}
		if p.repaint {
			p.paint(strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n"))
			return nil
		}
		_, err := b.WriteTo(s.Stdout)
		return err
	})
}

// fleetLine is the ready engines' sums, and the one that falls behind most: a mean alone hides it.
func fleetLine(engines []rollout.Engine) string {
	var in, out float64
	var worst *rollout.Engine
	ready := 0
	for i := range engines {
		e := &engines[i]
		if e.State != rollout.EngineReady {
			continue
		}
		ready++
		in, out = in+e.Load.InputTPS, out+e.Load.OutputTPS
		if worst == nil || e.Load.OutputTPS < worst.Load.OutputTPS {
			worst = e
		}
	}
	line := fmt.Sprintf("%d of %d engines ready  in %.0f tok/s  out %.0f tok/s", ready, len(engines), in, out)
	if ready > 1 {
		line += fmt.Sprintf("  mean %.0f, worst %.0f (%s)", out/float64(ready), worst.Load.OutputTPS, worst.ID)
	}
	return line
}

// topTable is the engines by what they put out; those that do nothing keep the order of their names.
func topTable(engines []rollout.Engine, now time.Time) *table.Table {
	engines = slices.Clone(engines)
	slices.SortFunc(engines, func(a, b rollout.Engine) int {
		switch {
		case a.Load.OutputTPS > b.Load.OutputTPS:
			return -1
		case a.Load.OutputTPS < b.Load.OutputTPS:
			return 1
		}
		return strings.Compare(string(a.ID), string(b.ID))
	})
	t := table.New(table.Left("ENGINE"), table.Left("STATE"), table.Right("RUNNING"), table.Right("WAITING"),
		table.Right("SLOTS"), table.Right("QUEUE s"),
		table.Right("IN tok/s"), table.Right("OUT tok/s"), table.Right("CACHED"), table.Right("KV"), table.Right("USAGE ERR"),
		table.Right("SAMPLED"), table.Left("REASON"))
	for _, e := range engines {
		l := e.Load
		slots := 0.0
		if limit := e.Limit(); limit > 0 {
			slots = 100 * (l.Running + l.Waiting) / float64(limit)
		}
		t.Row(string(e.ID), string(e.State), fmt.Sprintf("%.0f", l.Running), fmt.Sprintf("%.0f", l.Waiting),
			fmt.Sprintf("%.0f %%", slots),
			fmt.Sprintf("%.1f", l.QueueSec), fmt.Sprintf("%.0f", l.InputTPS), fmt.Sprintf("%.0f", l.OutputTPS),
			fmt.Sprintf("%.0f %%", 100*l.PrefixHitShare),
			fmt.Sprintf("%.0f %%", 100*l.KVUsage), usageGap(l), ago(l.At, now), reason(e, now))
	}
	return t
}

// usageGap is the larger of an engine's two usage errors, with its sign.
func usageGap(l rollout.EngineLoad) string {
	idle := l.Running+l.Waiting+l.InputTPS+l.OutputTPS == 0 // a health check is much beside nothing
	if l.UsageWindowSec == 0 || idle {
		return "-"
	}
	larger := l.UsageInputError
	if math.Abs(l.UsageOutputError) > math.Abs(larger) {
		larger = l.UsageOutputError
	}
	if math.Abs(larger) < 0.0005 {
		return "0.0 %"
	}
	return fmt.Sprintf("%+.1f %%", 100*larger)
}
