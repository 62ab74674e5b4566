package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/face/apiclient"
	"github.com/millrace/millrace/internal/face/tablerow"
	"github.com/millrace/millrace/internal/kit/table"
	"github.com/millrace/millrace/internal/rollout"
)

func newAxiomCommand(d Deps) *cobra.Command {
	s := &session{Deps: d}
	cmd := &cobra.Command{Use: "axiom",
		Short: "Dashboards and monitors in Axiom, and events that could not be delivered to it",
		Long: "Dashboards and monitors in Axiom, and events that could not be delivered to it. How the delivery goes " +
			"is in: millrace status."}
	s.flags(cmd)
	letters := &cobra.Command{Use: "dead-letters", Short: "Events that Axiom refused for what they are, with its reasons",
		Long: "Events that Axiom refused for what they are, while it took others. Each is kept with Axiom's reason\n" +
			"until it is replayed or dropped; 10,000 at most, beyond which delivery waits rather than lose a fact.\n" +
			"The service's own store, which diagnosis reads, has them all the same. With -o json each is shown whole."}
	letters.AddCommand(s.listLettersCommand(),
		s.changeLettersCommand("replay", "Deliver refused events again, for when the cause is gone", "to be delivered again",
			"  millrace axiom dead-letters replay --all\n  millrace axiom dead-letters replay 1700000000000-0"),
		s.changeLettersCommand("drop", "Give refused events up; the service's own store keeps its copies", "dropped",
			"  millrace axiom dead-letters drop --all"))
	cmd.AddCommand(letters, s.forgetSinkCommand())
	return cmd
}

func (s *session) forgetSinkCommand() *cobra.Command {
	cmd := s.on("forget", "Forget Axiom, when it was switched off, with what waits for it",
		func(ctx context.Context, c Client) error {
			if _, err := c.Call(ctx, http.MethodDelete, sinkPath, "", nil); err != nil {
				return err
			}
			s.Say("axiom is forgotten")
			return nil
		})
	cmd.Long = `Forget Axiom when no server delivers to it any more: its dead letters and its counts go, and events are no longer kept for it. Refused while
a server delivers. When it is used again it begins anew, an hour back.`
	return cmd
}

// letter is an event that Axiom refused.
type letter struct {
	ID     string          `json:"id"`
	Event  string          `json:"event_id"`
	At     time.Time       `json:"at"`
	Run    rollout.RunName `json:"run_id"`
	Kind   string          `json:"kind"`
	Reason string          `json:"reason"`
}

type letterPage struct {
	DeadLetters []letter `json:"dead_letters"`
	Kept        int64    `json:"kept"`
	Ever        int64    `json:"ever"`
	Next        string   `json:"next"`
}

const (
	sinkPath    = "/v1/sinks/axiom"
	lettersPath = sinkPath + "/dead-letters"
)

func (s *session) listLettersCommand() *cobra.Command {
	limit, after := 100, ""
	cmd := s.on("list", "List refused events, oldest first, with Axiom's reasons",
		func(ctx context.Context, c Client) error {
			page, a, err := apiclient.Get[letterPage](ctx, c.Client, fmt.Sprintf("%s?limit=%d&after=%s", lettersPath, limit,
				url.QueryEscape(after)))
			if err != nil {
				return err
			}
			switch {
			case page.Kept == 0 && page.Ever == 0:
				s.Say("no dead letters: Axiom has refused no event")
			case page.Kept == 0:
				s.Say("no dead letters; of the %d that there were, each was replayed or dropped", page.Ever)
			case page.Next != "":
				s.Say("%d of %d; the next with: --after %s", len(page.DeadLetters), page.Kept, page.Next)
			}
			if len(page.DeadLetters) == 0 {
				return s.show(a.Body, nil)
			}
			return s.show(a.Body, func() error { return s.write(lettersTable(page.DeadLetters, s.now())) })
		})
	cmd.Flags().IntVar(&limit, "limit", limit, "how many, 1 to 1000")
	cmd.Flags().StringVar(&after, "after", "", "only those after the one with this id")
	return cmd
}

func lettersTable(letters []letter, now time.Time) *table.Table {
	t := table.New(table.Left("ID"), table.Right("REFUSED"), table.Left("EVENT"), table.Left("REASON"))
	for _, l := range letters {
		t.Row(l.ID, tablerow.Ago(l.At, now), l.Event, l.Reason)
	}
	return t
}

func (s *session) changeLettersCommand(do, short, done, example string) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use: do + " [ID...] [--all]", Short: short, Example: example, Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if all == (len(args) > 0) {
				return Usage("which dead letters? name them as listed, or say --all")
			}
			c, err := s.client()
			if err != nil {
				return err
			}
			body := map[string]any{"ids": args}
			if all {
				body = map[string]any{"all": true}
			}
			type counted struct {
				Events int64 `json:"events"`
			}
			n, a, err := apiclient.Send[counted](cmd.Context(), c.Client, http.MethodPost, lettersPath+"/"+do, body)
			if err != nil {
				return err
			}
			return s.show(a.Body, func() error {
				s.Say("%d events %s", n.Events, done)
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "all of them")
	return cmd
}
