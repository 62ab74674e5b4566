package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/face/apiclient"
	"github.com/millrace/millrace/internal/face/tablerow"
	"github.com/millrace/millrace/internal/kit/table"
	"github.com/millrace/millrace/internal/store/eventstore/delivery"
)

func newAxiomCommand(d Deps) *cobra.Command {
	s := &session{Deps: d}
	cmd := &cobra.Command{Use: "axiom"}
	s.flags(cmd)
	letters := &cobra.Command{Use: "dead-letters"}
	letters.AddCommand(s.listLettersCommand(), s.changeLettersCommand("replay", "to be delivered again"),
		s.changeLettersCommand("drop", "dropped"))
	cmd.AddCommand(letters, s.forgetSinkCommand())
	return cmd
}

func (s *session) forgetSinkCommand() *cobra.Command {
	return s.on("forget", func(ctx context.Context, c Client) error {
		if _, err := c.Call(ctx, http.MethodDelete, sinkPath, "", nil); err != nil {
			return err
		}
		s.Say("axiom is forgotten")
		return nil
	})
}

const (
	sinkPath    = "/v1/sinks/axiom"
	lettersPath = sinkPath + "/dead-letters"
)

func (s *session) listLettersCommand() *cobra.Command {
	limit, after := 100, ""
	cmd := s.on("list", func(ctx context.Context, c Client) error {
		page, a, err := apiclient.Get[api.LetterList](ctx, c.Client, fmt.Sprintf("%s?limit=%d&after=%s", lettersPath, limit,
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

func lettersTable(letters []delivery.DeadLetter, now time.Time) *table.Table {
	t := table.New(table.Left("ID"), table.Right("REFUSED"), table.Left("EVENT"), table.Left("REASON"))
	for _, l := range letters {
		t.Row(l.ID, tablerow.Ago(l.At, now), l.Event, l.Reason)
	}
	return t
}

func (s *session) changeLettersCommand(do, done string) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use: do + " [ID...] [--all]", Args: cobra.ArbitraryArgs,
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
			n, a, err := apiclient.Send[api.LetterCount](cmd.Context(), c.Client, http.MethodPost, lettersPath+"/"+do, body)
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
